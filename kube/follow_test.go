package kube

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// follower writes down the events of a watch, one line each.
type follower struct {
	mu       sync.Mutex
	lines    []string
	troubles []*Trouble
	// recovered counts the troubles that are over.
	recovered int
	cancel    context.CancelFunc
	ended     chan struct{}
	// slow is the time that the loop's body takes.
	slow time.Duration
}

// follow starts a loop over events that ends with the test.
func follow[T any](
	t *testing.T, events func(context.Context) iter.Seq2[WatchEvent[T], error], note func(*T) string,
) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		for ev, err := range events(ctx) {
			f.take(ev.Type, asObject(ev.Object), note(ev.Object), err)
			f.mu.Lock()
			slow := f.slow
			f.mu.Unlock()
			time.Sleep(slow) // a slow reader
		}
	}()
	t.Cleanup(f.stop)
	return f
}

func (f *follower) stop() {
	f.cancel()
	<-f.ended
}

func (f *follower) take(kind WatchEventType, o object, note string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var report *Trouble
	switch {
	case errors.As(err, &report):
		f.troubles = append(f.troubles, report)
		return
	case err != nil:
		f.lines = append(f.lines, strings.TrimSpace(fmt.Sprintf("ERROR %s %s", o.GetName(), kind)))
		return
	case kind == Recovered:
		f.recovered++
		return
	case kind == Synced:
		f.lines = append(f.lines, "SYNCED")
		return
	}
	if len(o.GetManagedFields()) > 0 {
		note += " with managedFields"
	}
	f.lines = append(f.lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", kind, KeyOf(o), note)))
}

// taken waits until all goroutines are idle. It returns the lines since the last call.
func (f *follower) taken() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines = nil
	return lines
}

// reports returns the troubles since the last call.
func (f *follower) reports() []*Trouble {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.troubles
	f.troubles = nil
	return list
}

// recoveries returns the number of troubles that have ended since the last call.
func (f *follower) recoveries() int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.recovered
	f.recovered = 0
	return n
}

func (f *follower) setSlow(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = d
}

// wantLines compares lines and shows the difference.
func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// flavour is a way to watch the objects of the played server.
type flavour struct {
	name  string
	json  bool // the server does not speak protobuf
	watch func(*testing.T, *Client, func(narrow)) *follower
	note  bool // the type has the note
}

// narrow lets a test narrow a handle of any type.
type narrow interface {
	In(...string)
	Labeled(string)
}

type narrowed[T any] struct{ r *Reader[T] }

func (n narrowed[T]) In(ns ...string)  { *n.r = n.r.In(ns...) }
func (n narrowed[T]) Labeled(s string) { *n.r = n.r.Labeled(s) }

func watcher[T any](
	handle func(*Client) Reader[T], note func(*T) string,
) func(*testing.T, *Client, func(narrow)) *follower {
	return func(t *testing.T, c *Client, set func(narrow)) *follower {
		r := handle(c)
		if set != nil {
			set(narrowed[T]{&r})
		}
		return follow(t, r.Watch, note)
	}
}

func configMaps(c *Client) Reader[corev1.ConfigMap] { return For[corev1.ConfigMap](c).ReadOnly() }
func widgets(c *Client) Reader[widget]              { return For[widget](c, widgetKind).ReadOnly() }
func noteViews(c *Client) Reader[noteView] {
	return ViewOf[noteView](c, KindOf[corev1.ConfigMap]()).ReadOnly()
}
func onlyMeta(c *Client) Reader[Object] {
	return ViewOf[Object](c, KindOf[corev1.ConfigMap]()).ReadOnly()
}

func noteOfConfigMap(o *corev1.ConfigMap) string { return o.Data["note"] }
func noteOfWidget(o *widget) string              { return o.Spec.Note }
func noteOfView(o *noteView) string              { return o.Data["note"] }
func noNote(*Object) string                      { return "" }

var flavours = []flavour{
	{"protobuf", false, watcher(configMaps, noteOfConfigMap), true},
	{"json", true, watcher(configMaps, noteOfConfigMap), true},
	{"custom resource", false, watcher(widgets, noteOfWidget), true},
	{"view", false, watcher(noteViews, noteOfView), true},
	{"view of json", true, watcher(noteViews, noteOfView), true},
	{"metadata", false, watcher(onlyMeta, noNote), false},
}

// inVirtualTime runs a test in a bubble of its own for every flavour.
func inVirtualTime(t *testing.T, test func(*testing.T, *apiServer, func(func(narrow)) *follower)) {
	for _, fl := range flavours {
		t.Run(fl.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				s.jsonOnly = fl.json
				c := s.client(t)
				test(t, s, func(set func(narrow)) *follower {
					return fl.watch(t, c, set)
				})
			})
		})
	}
}

func key(name string) Key { return Key{"default", name} }
