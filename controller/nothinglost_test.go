package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/kube"
)

// doneWork is what a reconcile has done last for an object.
type doneWork struct {
	object string // its uid and size
	at     time.Duration
}

// careless are gizmos whose reconciles fail, panic, or put their work off at random. The controller
// stops and starts again at random.
type careless struct {
	*stage
	rand  *rand.Rand
	calm  bool // nothing fails or is put off any more
	done  map[string]doneWork
	asked map[string]time.Duration // when a source has asked last
	ask   chan kube.Key
	stop  func() error
}

func (w *careless) of(g *gizmo) string { return fmt.Sprint(g.UID, " ", g.Spec.Size) }

func (w *careless) reconcile(ctx context.Context, g *gizmo) (Action, error) {
	w.mu.Lock()
	work := doneWork{w.of(g), time.Since(w.begun)}
	what, takes, later := w.rand.IntN(8), w.rand.IntN(100), w.rand.IntN(3000)
	calm := w.calm
	w.mu.Unlock()
	time.Sleep(time.Duration(takes) * time.Millisecond)
	switch {
	case calm:
	case what == 0:
		return Done, errBroken
	case what == 1:
		panic("at the disco")
	case what < 4:
		return After(time.Duration(later) * time.Millisecond), nil
	case what == 4:
		if err := w.seen(ctx, g.Name, g.Status.Seen+1); err != nil {
			return Done, err
		}
	}
	if err := ctx.Err(); err != nil {
		return Done, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[g.Name] = work
	return Done, nil
}

// begin starts the controller. Channels are read by the controller that runs.
func (w *careless) begin(c Controller[gizmo]) {
	w.ask = make(chan kube.Key)
	c.Watches = []Source{Channel("asked", w.ask)}
	c.Reconcile = w.reconcile
	w.stop = w.start(Options{}, c)
}

// act is something that happens to an object, and the time that passes then.
type act struct {
	what, name string
	then       time.Duration
}

func anAct(t *rapid.T) act {
	return act{
		rapid.SampledFrom([]string{"spec", "spec", "spec", "status", "delete", "ask", "ask", "stop"}).Draw(t, "act"),
		fmt.Sprint("g", rapid.IntRange(0, 3).Draw(t, "object")),
		time.Duration(rapid.SampledFrom([]int{0, 0, 1, 30, 200, 3000}).Draw(t, "ms")) * time.Millisecond,
	}
}

func (w *careless) do(a act, c Controller[gizmo]) {
	resize := func(g *gizmo) { g.Spec.Size++ }
	switch a.what {
	case "spec":
		w.put(a.name, resize)
	case "status":
		w.put(a.name, func(g *gizmo) { g.Status.Seen++ })
	case "delete":
		if w.gizmo(a.name) != nil {
			w.delete(a.name)
		}
	case "ask":
		w.ask <- named(a.name)
		w.asked[a.name] = time.Since(w.begun)
	case "stop":
		if err := w.stop(); err != nil {
			w.Error(err)
		}
		w.put(a.name, resize) // while nobody looks
		w.begin(c)
	}
	time.Sleep(a.then)
}

// lost returns what was asked for and not done, some time after the last act.
func (w *careless) lost() (all []string) {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.sleep(time.Hour)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range 4 {
		name := fmt.Sprint("g", i)
		g := w.gizmo(name)
		if done := w.done[name]; g != nil && (done.object != w.of(g) || done.at < w.asked[name]) {
			all = append(all, fmt.Sprintf("%s is %s, asked for at %s, and was last done as %v", name, w.of(g), w.asked[name], done))
		}
	}
	return all
}

// Whatever fails, is put off or stops: each change of an object and each request is followed by a
// reconcile that does its work.
func TestSoakNothingIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		c := Controller[gizmo]{
			Concurrency: rapid.IntRange(1, 3).Draw(rt, "concurrency"),
			MinInterval: rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond, 2 * time.Second}).Draw(rt, "interval"),
			Backoff:     Backoff{Min: 10 * time.Millisecond, Max: 20 * time.Second},
		}
		if rapid.Bool().Draw(rt, "priority") {
			c.Priority = func(cause Cause) Priority {
				if cause.Reason == Triggered {
					return High
				}
				return Default
			}
		}
		acts := rapid.SliceOfN(rapid.Custom(anAct), 1, 40).Draw(rt, "acts")
		var lost []string
		onStage(t, func(s *stage) {
			w := &careless{
				stage: s, rand: rand.New(rand.NewPCG(seed, 0)),
				done: make(map[string]doneWork), asked: make(map[string]time.Duration),
			}
			w.begin(c)
			for _, a := range acts {
				w.do(a, c)
			}
			lost = w.lost()
		})
		if len(lost) > 0 {
			rt.Fatalf("seed %d: %q", seed, lost)
		}
	})
}
