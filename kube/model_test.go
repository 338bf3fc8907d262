package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/internal/bubble"
)

// model is a played server with watches and stores. The test checks them while the
// server's history goes on at random. rapid prints the seed of a failure.
type model struct {
	*rapid.T
	t       *testing.T
	s       *apiServer
	checks  []*modelCheck
	store   *Store[corev1.ConfigMap]
	byNote  *Index[corev1.ConfigMap, string]
	stop    context.CancelFunc
	running sync.WaitGroup
	loops   []*shownLoop

	mu    sync.Mutex
	fault modelFault // the fault of the next request
}

type modelFault func(*http.Request) (*http.Response, error)

func (m *model) setFault(f modelFault) modelFault {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.fault
	m.fault = f
	return was
}

type modelCheck struct {
	*checker
	fits func(modelObject) bool
}

func TestPromiseUnderRandomHistories(t *testing.T) {
	bubble.Check(t, 2, func(rt *rapid.T, t *testing.T) {
		m := startModel(rt, t)
		rt.Repeat(map[string]func(*rapid.T){
			"put":     m.put,
			"puts":    func(rt *rapid.T) { m.put(rt); m.put(rt); m.put(rt) },
			"remove":  m.remove,
			"anew":    m.anew,
			"cut":     func(*rapid.T) { m.s.cutWatches() },
			"hold":    func(*rapid.T) { m.s.hold() },
			"release": func(*rapid.T) { m.s.release() },
			"expire":  func(*rapid.T) { m.s.forget(); m.s.cutWatches() },
			"break":   m.breakNext,
			"stale":   m.stale,
			"repeat":  func(rt *rapid.T) { m.s.repeat(int64(rapid.IntRange(1, 8).Draw(rt, "versions"))) },
			"wait":    func(rt *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second) },
			"":        func(*rapid.T) { synctest.Wait() },
		})
		m.finish()
	})
}

func startModel(rt *rapid.T, t *testing.T) *model {
	m := &model{T: rt, t: t, s: newAPIServer()}
	m.s.jsonOnly = rapid.Bool().Draw(rt, "json only")
	m.s.intercept = func(_ int, r *http.Request) (*http.Response, error) {
		if f := m.setFault(nil); f != nil {
			return f(r)
		}
		return nil, nil
	}
	c, err := Config{Rest: restTo(m.s), Logger: testLogger(t)}.Connect()
	if err != nil {
		rt.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m.stop = cancel
	all := func(modelObject) bool { return true }
	web := func(o modelObject) bool { return o.labels["app"] == "web" }
	addModel(ctx, m, "all", configMaps(c), inOneList, noteOfConfigMap, all)
	addModel(ctx, m, "streamed", configMaps(c), inStream, noteOfConfigMap, all)
	addModel(ctx, m, "labeled", configMaps(c).Labeled("app=web"), inOneList, noteOfConfigMap, web)
	addModel(ctx, m, "view", noteViews(c), inOneList, noteOfView, all)
	addModel(ctx, m, "widgets", widgets(c), inPages, noteOfWidget, all)
	m.byNote = IndexBy(configMaps(c), func(o *corev1.ConfigMap) []string { return []string{o.Data["note"]} })
	m.store = StoreOf(ctx, configMaps(c))
	changes := m.add("changes of the store", all)
	m.running.Go(func() { checkLoop(m.store.Watch(ctx), changes.checker, noteOfConfigMap) })
	slow := m.add("slow changes", all)
	m.running.Go(func() {
		for ev, err := range m.store.Watch(ctx) {
			slow.take(ev.Type, asObject(ev.Object), noteOfConfigMap(ev.Object), err)
			_ = sleep(ctx, 5*time.Second)
		}
	})
	m.addLoop(ctx, merged, configMaps(c), 1, 0)
	m.addLoop(ctx, merged, configMaps(c), 1, 7*time.Second)
	m.addLoop(ctx, stepwise, configMaps(c), 1, 0)
	m.addLoop(ctx, stepwise, configMaps(c), 10, 20*time.Second)
	return m
}

// addLoop starts a loop that pauses after every so many changes. The race detector of Go
// 1.26 crashes in a bubble that has had many more timers than these.
func (m *model) addLoop(
	ctx context.Context, changes func(context.Context, *Informer) iter.Seq[Change], of AnyHandle, every int,
	pause time.Duration,
) {
	loop := &shownLoop{shown: make(map[Key]*entry), states: make(map[Key][]*entry)}
	m.loops = append(m.loops, loop)
	feed := of.Open(context.Background())
	m.running.Go(func() {
		defer feed.Close()
		n := 0
		for c := range changes(ctx, feed) {
			loop.take(c)
			if n++; n%every == 0 && pause > 0 {
				_ = sleep(ctx, pause)
			}
		}
	})
}

// shownLoop checks that each change that a loop is shown begins at the state that the
// loop was shown last.
type shownLoop struct {
	mu     sync.Mutex
	shown  map[Key]*entry
	states map[Key][]*entry // all that was shown of an object, nil for its end
	synced int
	faults []string
}

func (l *shownLoop) take(c Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.shown[c.Key]
	ok := last == c.was
	switch c.Type {
	case Synced:
		l.synced++
		return
	case Added:
		ok = ok && last == nil
	case Modified:
		ok = ok && last != nil && last != c.is && last.Is(c.is.UID())
	case Deleted:
		ok = ok && last != nil && last.Is(c.is.UID())
	}
	if !ok {
		l.faults = append(l.faults, fmt.Sprintf("%s %s goes from %p to %p, the last was %p", c.Type, c.Key, c.was, c.is,
			last))
	}
	l.shown[c.Key] = c.is
	if c.Type == Deleted {
		delete(l.shown, c.Key)
	}
	l.states[c.Key] = append(l.states[c.Key], l.shown[c.Key])
}

func (m *model) add(name string, fits func(modelObject) bool) *modelCheck {
	ck := &modelCheck{newChecker(m.t, name), fits}
	m.checks = append(m.checks, ck)
	return ck
}

func addModel[T any](
	ctx context.Context,
	m *model,
	name string,
	r Reader[T],
	how listing,
	note func(*T) string,
	fits func(modelObject) bool,
) {
	ck := m.add(name, fits)
	m.running.Go(func() { checkWatch(ctx, r, how, ck.checker, note) })
}

func (m *model) key(rt *rapid.T) Key {
	return Key{"default", "o" + strconv.Itoa(rapid.IntRange(0, 4).Draw(rt, "object"))}
}

func (m *model) put(rt *rapid.T) {
	k := m.key(rt)
	n := rapid.IntRange(0, 3).Draw(rt, "note")
	web := rapid.Bool().Draw(rt, "web")
	m.s.put(k, fmt.Sprintf("%s|%d", k.Name, n), func(o *modelObject) {
		o.labels = nil
		if web {
			o.labels = map[string]string{"app": "web"}
		}
		o.owner = types.UID(fmt.Sprint("owner", n))
	})
}

func (m *model) remove(rt *rapid.T) { m.s.remove(m.key(rt)) }

func (m *model) anew(rt *rapid.T) {
	k := m.key(rt)
	m.s.remove(k)
	m.s.put(k, k.Name+"|anew")
}

// breakNext makes the next request fail in one of the ways that servers have.
func (m *model) breakNext(rt *rapid.T) {
	kind := rapid.SampledFrom([]string{"refused", "503", "429", "410", "410 event", "empty", "half", "silent"}).Draw(rt,
		"fault")
	m.setFault(func(r *http.Request) (*http.Response, error) {
		proto := m.s.contentType(r) == typeProtobuf
		switch kind {
		case "refused":
			return nil, refused()
		case "503", "429":
			code, _ := strconv.Atoi(kind)
			return status(code, metav1.StatusReasonUnknown, "busy"), nil
		case "410":
			return status(410, metav1.StatusReasonExpired, "too old"), nil
		case "410 event":
			return answer(200, m.s.contentType(r),
				errorEvent(proto, metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired})), nil
		case "empty":
			return answer(200, m.s.contentType(r), nil), nil
		case "half":
			resp, err := m.s.serve(r)
			if err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: resp.StatusCode, Header: resp.Header,
				Body: &halfBody{ReadCloser: resp.Body, left: 150}}, nil
		}
		return silent(r, m.s.contentType(r), nil), nil
	})
}

// halfBody breaks off after some bytes.
type halfBody struct {
	io.ReadCloser
	left int
}

func (h *halfBody) Read(p []byte) (int, error) {
	if h.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := h.ReadCloser.Read(p[:min(len(p), h.left)])
	h.left -= n
	return n, err
}

// stale makes the next list be answered as of an earlier time.
func (m *model) stale(rt *rapid.T) {
	back := int64(rapid.IntRange(1, 8).Draw(rt, "versions back"))
	m.setFault(func(r *http.Request) (*http.Response, error) {
		if isWatch(r) {
			return nil, nil
		}
		m.s.mu.Lock()
		rv := max(m.s.rv-back, 100)
		m.s.mu.Unlock()
		var items []modelObject
		matches := matcher(r, "")
		for _, o := range m.s.at(rv) {
			if matches(&o) {
				items = append(items, o)
			}
		}
		return m.s.encodeList(r, rv, "", items), nil
	})
}

// finish waits until everything is quiet and compares the whole content.
func (m *model) finish() {
	m.setFault(nil)
	m.s.release()
	time.Sleep(10 * time.Minute) // silence, back-off and slow loops are over
	synctest.Wait()
	m.s.mu.Lock()
	now := m.s.rv
	m.s.mu.Unlock()
	for _, ck := range m.checks {
		m.compare(ck, "at the end", ck.now(), now)
		for _, mk := range ck.takeMarks() {
			rv, err := strconv.ParseInt(mk.rv, 10, 64)
			if err != nil {
				m.Fatal(err)
			}
			m.compare(ck, "at the mark of "+mk.rv, mk.state, rv)
		}
		if ck.faults > 0 {
			m.Fatalf("%s: %d faults", ck.name, ck.faults)
		}
	}
	m.compareStore(now)
	for i, l := range m.loops {
		l.mu.Lock()
		if len(l.faults) > 0 || l.synced != 1 || !maps.Equal(l.shown, maps.Collect(m.store.reads.table.now().entries.All())) {
			m.Fatalf("loop %d was shown %d objects, %d times Synced, with faults %q", i, len(l.shown), l.synced, l.faults)
		}
		l.mu.Unlock()
	}
	// The loops over steps began at different times, and were shown the same since.
	quick, slow := m.loops[2].states, m.loops[3].states
	for key := range quick {
		n := min(len(quick[key]), len(slow[key]))
		if a, b := last(quick[key], n), last(slow[key], n); !slices.Equal(a, b) {
			m.Fatalf("of %s, a quick loop was shown the states %p and a slow one %p", key, a, b)
		}
	}
	m.stop()
	m.running.Wait()
	<-m.store.Done()
}

func last(list []*entry, n int) []*entry { return list[len(list)-n:] }

func (m *model) compare(ck *modelCheck, when string, got map[Key]version, rv int64) {
	want := make(map[Key]version)
	for k, o := range m.s.at(rv) {
		if ck.fits(o) {
			want[k] = version{o.uid, strconv.FormatInt(o.rv, 10)}
		}
	}
	if diff := differ(got, want); diff != "" {
		m.Fatalf("%s: %s:%s", ck.name, when, diff)
	}
}

// compareStore compares every way to read the store with the model.
func (m *model) compareStore(rv int64) {
	ctx := m.t.Context()
	state := m.s.at(rv)
	collect := func(seq func(func(*corev1.ConfigMap, error) bool)) (found []string) {
		for o, err := range seq {
			if err != nil {
				m.Fatal(err)
			}
			found = append(found, o.Name+o.Data["note"]+string(o.UID))
		}
		slices.Sort(found)
		return found
	}
	want := func(fits func(modelObject) bool) (found []string) {
		for _, o := range state {
			if fits(o) {
				found = append(found, o.key.Name+o.note+string(o.uid))
			}
		}
		slices.Sort(found)
		return found
	}
	check := func(what string, got, want []string) {
		if !slices.Equal(got, want) {
			m.Fatalf("store: %s: got %q, want %q", what, got, want)
		}
	}
	check("all", collect(m.store.All(ctx)), want(func(modelObject) bool { return true }))
	check("labeled", collect(m.store.Labeled(ctx, "app=web")), want(func(o modelObject) bool {
		return o.labels["app"] == "web"
	}))
	for n := range 4 {
		owner := types.UID(fmt.Sprint("owner", n))
		check("owned", collect(m.store.OwnedBy(ctx, owner)), want(func(o modelObject) bool { return o.owner == owner }))
		note := fmt.Sprintf("o1|%d", n)
		check("indexed", collect(m.byNote.Get(ctx, note)), want(func(o modelObject) bool { return o.note == note }))
	}
	size := int64(0)
	for k, e := range m.store.reads.table.now().entries.All() {
		size += int64(e.Size())
		if o, err := m.store.Get(ctx, k); err != nil || o.UID != state[k].uid {
			m.Fatalf("store: get %s: %v, %v", k, o, err)
		}
	}
	if st := m.store.Stats(); st.Bytes != size || st.Objects != len(state) {
		m.Fatalf("store: %+v, want %d objects of %d bytes", st, len(state), size)
	}
	if _, err := m.store.Get(ctx, key("missing")); !errors.As(err, new(*Error)) {
		m.Fatalf("store: get of nothing: %v", err)
	}
}
