package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// readers are gizmos that each read another gizmo, the target that their size names. They
// change, come and go at random, and so do the targets. Predicates and Priority are slow at
// random.
type readers struct {
	*stage
	mu    sync.Mutex
	rand  *rand.Rand
	saw   map[string]sight       // by the readers' names
	ran   map[types.UID]struct{} // all objects that were reconciled
	told  map[types.UID]struct{} // all objects that Gone was called for
	ended map[types.UID]struct{} // all objects that were deleted
}

// sight is what a reconcile has read.
type sight struct {
	uid    types.UID
	size   int
	target string
	at     time.Time
}

func (r *readers) n(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.IntN(n)
}

// nap is a slow reader.
func (r *readers) nap(most int) {
	time.Sleep(time.Duration(max(0, r.n(2*most)-most)) * time.Millisecond)
}

func isReader(c kube.Change) bool { return c.Key.Name[0] == 'r' }

func targetOf(g *gizmo) string { return fmt.Sprint("t", g.Spec.Size%3) }

// Whatever is slow, each reader is reconciled after the last change of what it has read,
// and when it has asked for it. Gone is called for each object that was reconciled.
func TestNoReconcileIsLost(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onStage(t, func(s *stage) {
				r := &readers{
					stage: s, rand: rand.New(rand.NewPCG(seed, 0)), saw: make(map[string]sight),
					ran: make(map[types.UID]struct{}), told: make(map[types.UID]struct{}), ended: make(map[types.UID]struct{}),
				}
				ask := make(chan kube.Key)
				c := r.controller()
				c.Watches = append(c.Watches, Channel("asked", ask))
				s.start(Options{}, c)
				for range 60 {
					r.act(ask)
					r.nap(30)
				}
				s.sleep(20 * time.Minute)
				r.judge()
			})
		})
	}
}

func (r *readers) controller() (c Controller[gizmo]) {
	target := func(g *gizmo) []kube.Key { return []kube.Key{named(targetOf(g))} }
	slowness := []int{1, 20, 200}[r.n(3)]
	slow := func(p Predicate) Predicate { return func(c kube.Change) bool { r.nap(slowness); return p(c) } }
	spec := FieldsChanged("spec")
	c.Watches = []Source{Referenced(r.gizmos, target, []Predicate{
		slow(func(kube.Change) bool { return true }),
		slow(spec),
		spec,
	}[r.n(3)])}
	c.Predicate = []Predicate{
		nil,
		slow(isReader),
		slow(func(c kube.Change) bool { return isReader(c) && spec(c) }),
		slow(func(c kube.Change) bool { return c.Type == kube.Modified }), // a reader is asked for first
	}[r.n(4)]
	if r.n(2) == 0 {
		c.Priority = func(Cause) Priority { r.nap(slowness); return Default }
	}
	c.Concurrency, c.MinInterval = 1+r.n(4), time.Duration(r.n(2))*50*time.Millisecond
	writes := r.n(2) == 0
	c.Reconcile = func(ctx context.Context, g *gizmo) (Action, error) {
		r.nap(10)
		target, err := r.gizmos.In(g.Namespace).Cached().Get(ctx, targetOf(g))
		if err != nil && !apierrors.IsNotFound(err) {
			return Done, err
		}
		now := sight{g.UID, g.Spec.Size, "", time.Now()}
		if err == nil {
			now.target = fmt.Sprint(target.UID, target.Spec.Size)
		}
		r.nap(30)
		if g.Status.Seen++; writes && g.Status.Seen < 3 {
			if err := r.gizmos.Status().Apply(ctx, g); err != nil {
				return Done, err
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran[g.UID], r.saw[g.Name] = struct{}{}, now
		if r.rand.IntN(6) == 0 {
			return Done, errBroken
		}
		return After(time.Minute), nil
	}
	c.Gone = func(_ context.Context, g *gizmo) error {
		r.nap(20)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.told[g.UID] = struct{}{}
		return nil
	}
	return c
}

// act changes, deletes, recreates or asks for an object.
func (r *readers) act(ask chan<- kube.Key) {
	name := []string{"r0", "r1", "r2", "r3", "t0", "t1", "t2"}[r.n(7)]
	resize := func(g *gizmo) { g.Spec.Size = r.n(6) }
	was := r.gizmo(name)
	switch what := r.n(10); {
	case what < 5:
		r.put(name, resize)
	case what < 6:
		r.put(name, func(g *gizmo) { g.Status.Seen++ })
	case what < 8 && was != nil:
		r.delete(name)
		r.ended[was.UID] = struct{}{}
		if r.n(2) == 0 {
			r.nap(20)
			r.put(name, resize)
		}
	default:
		select {
		case ask <- named(name):
		default:
		}
	}
}

func (r *readers) judge() {
	synctest.Wait()
	r.mu.Lock() // a reconcile may be under way
	lastSaw, hasRun, toldGone := maps.Clone(r.saw), maps.Clone(r.ran), maps.Clone(r.told)
	r.mu.Unlock()
	for name, saw := range lastSaw {
		g := r.gizmo(name)
		if name[0] != 'r' || g == nil || g.UID != saw.uid {
			continue
		}
		target := ""
		if t := r.gizmo(targetOf(g)); t != nil {
			target = fmt.Sprint(t.UID, t.Spec.Size)
		}
		if saw.size != g.Spec.Size || saw.target != target {
			r.Errorf("the last reconcile of %s has read %v", name, saw)
		}
		if since := time.Since(saw.at); since > 7*time.Minute {
			r.Errorf("the last reconcile of %s was %s ago", name, since)
		}
	}
	for uid := range r.ended {
		_, ran := hasRun[uid]
		if _, told := toldGone[uid]; ran && !told {
			r.Errorf("Gone was not called for %s", uid)
		}
	}
}
