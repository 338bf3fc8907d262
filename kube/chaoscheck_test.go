package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// version identifies a state of an object for a checker.
type version struct {
	uid types.UID
	rv  string
}

// checker verifies the promise of a watch, event by event. An object is never seen older
// than before. A new uid is a Deleted and an Added. At every sync mark the events add up
// to the server's state.
type checker struct {
	t    *testing.T
	name string

	mu       sync.Mutex
	state    map[Key]version
	last     map[Key]string // latest version seen under a name
	events   int
	marks    int
	troubles int
	rv       string // resourceVersion of the current mark
	// marked holds states at marks. They are compared with the server's states.
	marked []mark
	faults int
}

type mark struct {
	rv    string
	state map[Key]version
}

func newChecker(t *testing.T, name string) *checker {
	return &checker{t: t, name: name, state: make(map[Key]version), last: make(map[Key]string)}
}

func (c *checker) fault(format string, args ...any) {
	if c.faults++; c.faults <= 5 {
		c.t.Errorf("%s: event %d: %s", c.name, c.events, fmt.Sprintf(format, args...))
	}
}

// take checks an event. Note is empty if the type has none.
func (c *checker) take(kind WatchEventType, o object, note string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if !errors.As(err, new(*Trouble)) {
			c.fault("error: %v", err)
		}
		c.troubles++
		return
	}
	c.events++
	if kind == Recovered {
		return
	}
	if kind == Synced {
		c.marks++
		if c.rv != "" {
			c.marked = append(c.marked, mark{c.rv, maps.Clone(c.state)})
		}
		return
	}
	key := KeyOf(o)
	was, known := c.state[key]
	is := version{o.GetUID(), o.GetResourceVersion()}
	if name, _, _ := strings.Cut(note, "|"); note != "" && name != key.Name {
		c.fault("%s holds what was written to %s", key, name)
	}
	switch kind {
	case Added:
		if known {
			c.fault("%s is added twice: %v, %v", key, was, is)
		}
	case Modified:
		if !known || was.uid != is.uid {
			c.fault("%s is modified without being there: %v, %v", key, was, is)
		}
	case Deleted:
		if !known || was.uid != is.uid {
			c.fault("%s is deleted without being there: %v, %v", key, was, is)
		}
		delete(c.state, key)
		if is.rv != "" && versions.Older(is.rv, c.last[key]) {
			c.fault("%s goes back from %s to %s in its deletion", key, c.last[key], is.rv)
		}
		return
	default:
		c.fault("event of type %q", kind)
	}
	if was, ok := c.last[key]; ok && !versions.Older(was, is.rv) {
		c.fault("%s goes back from %s to %s, as %s", key, was, is.rv, kind)
	}
	c.state[key], c.last[key] = is, is.rv
}

func (c *checker) takeMarks() []mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	marked := c.marked
	c.marked = nil
	return marked
}

func (c *checker) now() map[Key]version {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.state)
}

// markSink tells the checker the resourceVersion of each sync mark.
type markSink struct {
	sink
	c *checker
}

func (m markSink) synced(rv string) error {
	m.c.mu.Lock()
	m.c.rv = rv
	m.c.mu.Unlock()
	return m.sink.synced(rv)
}

// checkWatch runs a watch of one namespace, or of all, through a checker.
func checkWatch[T any](ctx context.Context, r Reader[T], how listing, c *checker, note func(*T) string) {
	s := r.handle.eventSink(func(ev watchEvent, err error) bool {
		o := typed[T](ev.object)
		if o == nil {
			o = new(T)
		}
		c.take(ev.kind, asObject(o), note(o), err)
		return true
	})
	ref := r.handle.reflector(r.handle.namespace(), markSink{s, c})
	ref.how = how
	_ = ref.run(ctx)
}

// checkLoop runs a public loop over events through a checker.
func checkLoop[T any](events func(func(WatchEvent[T], error) bool), c *checker, note func(*T) string) {
	for ev, err := range events {
		c.take(ev.Type, asObject(ev.Object), note(ev.Object), err)
	}
}

// serverAt lists, by metadata alone, the server's objects as they are, or as they were at
// a resourceVersion. It tries again until ctx ends. If the resourceVersion is compacted,
// it returns nil.
func serverAt(ctx context.Context, h *handle, namespace, rv string) (map[Key]version, error) {
	for {
		state, err := listVersions(ctx, h, namespace, rv)
		switch {
		case err == nil:
			return state, nil
		case isExpired(err):
			return nil, nil
		}
		if serr := sleep(ctx, 200*time.Millisecond); serr != nil { // the server may be down
			return nil, fmt.Errorf("%w: %w", serr, err)
		}
	}
}

func listVersions(ctx context.Context, h *handle, namespace, rv string) (map[Key]version, error) {
	req, err := h.request(ctx, "list", "GET", namespace)
	if err != nil {
		return nil, err
	}
	req.query = make(map[string][]string)
	h.selector.set(req.query)
	if rv != "" {
		req.query.Set("resourceVersion", rv)
		req.query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	}
	req.accept = metadataCodec().Accept(wire.AList)
	resp, err := h.client.do(ctx, req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	state := make(map[Key]version)
	rec := wire.NewRecorder(metadataCodec())
	_, err = wire.ListReader{MaxBytes: defaultMaxObject, Each: func(item wire.Raw) error {
		r, err := rec.Record(item)
		state[Key(r.Key)] = version{r.UID, r.ResourceVersion}
		return err
	}}.Read(resp.Header.Get("Content-Type"), resp.Body)
	return state, err
}

// differ describes the difference of two states, or returns "".
func differ(got, want map[Key]version) string {
	var b strings.Builder
	for key, w := range want {
		if g, ok := got[key]; !ok || g != w {
			fmt.Fprintf(&b, " %s: got %v, want %v;", key, g, w)
		}
	}
	for key, g := range got {
		if _, ok := want[key]; !ok {
			fmt.Fprintf(&b, " %s: got %v, want none;", key, g)
		}
	}
	return b.String()
}
