package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// history has each state of a namespace's objects. The API server of a test keeps all kinds in one
// etcd, so that the resource versions tell which of two states was before, of different kinds too.
type history struct {
	mu     sync.Mutex
	states []moment
	synced int // kinds whose watch has begun
}

// moment is one state of an object.
type moment struct {
	version uint64
	kind    string
	name    string
	uid     types.UID
	gone    bool
	// writer is the endpoint that, by this state, writes to a timeline or may do so.
	writer, timeline string
	data             map[string][]byte // of a Secret
}

// record records the history of the world until the test ends. It returns when all that happens from
// then on is recorded.
func (w *world) record() *history {
	w.Helper()
	h := new(history)
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	w.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	primary := func(of map[string]string) (endpoint, timeline string) {
		if of[modeLabel] != "Primary" {
			return "", ""
		}
		return of["app.kubernetes.io/instance"], of[timelineLabel]
	}
	kinds := []func(){
		func() {
			follow(ctx, w, h, w.pods, func(p *corev1.Pod, s *moment) {
				if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
					s.writer, s.timeline = primary(p.Labels)
				}
			})
		},
		func() {
			follow(ctx, w, h, w.sets, func(set *appsv1.StatefulSet, s *moment) {
				if set.Spec.Replicas == nil || *set.Spec.Replicas > 0 {
					s.writer, s.timeline = primary(set.Labels)
				}
			})
		},
		func() {
			follow(ctx, w, h, w.leases, func(l *coordinationv1.Lease, s *moment) {
				s.writer, _, _ = strings.Cut(holder(l), "/")
				s.timeline = l.Labels[timelineLabel]
			})
		},
		func() {
			follow(ctx, w, h, w.endpoints, func(e *api.NeonEndpoint, s *moment) {
				c := condition(e)
				if e.Spec.Type == api.ReadWrite && e.DeletionTimestamp == nil && c.Status == metav1.ConditionTrue {
					s.writer, s.timeline = e.Name, e.Status.Timeline
				}
			})
		},
		func() {
			follow(ctx, w, h, w.secrets, func(secret *corev1.Secret, s *moment) { s.data = secret.Data })
		},
		func() { follow(ctx, w, h, w.roles, nil) },
		func() { follow(ctx, w, h, kube.For[api.NeonBranchDatabase](w.client).In(w.namespace), nil) },
		func() { follow(ctx, w, h, kube.For[corev1.Service](w.client).In(w.namespace), nil) },
		func() { follow(ctx, w, h, kube.For[networkingv1.NetworkPolicy](w.client).In(w.namespace), nil) },
	}
	for _, kind := range kinds {
		watching.Go(kind)
	}
	w.eventually("the history is recorded", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.synced == len(kinds)
	})
	return h
}

// follow records the objects of a kind. is, if it is not nil, adds to a state.
func follow[T any](ctx context.Context, w *world, h *history, of kube.Resource[T], is func(*T, *moment)) {
	first := true
	for event, err := range of.Watch(ctx) {
		switch {
		case err != nil:
			w.Errorf("record the history: %v", err)
		case event.Type == kube.Synced && first:
			first = false
			h.mu.Lock()
			h.synced++
			h.mu.Unlock()
		case event.Type.IsChange():
			o := any(event.Object).(metav1.Object)
			version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
			if err != nil {
				w.Errorf("record the history of %s: %v", o.GetName(), err)
			}
			s := moment{
				version: version, kind: fmt.Sprintf("%T", event.Object), name: o.GetName(), uid: o.GetUID(),
				gone: event.Type == kube.Deleted,
			}
			if is != nil && !s.gone {
				is(event.Object, &s)
			}
			h.mu.Lock()
			h.states = append(h.states, s)
			h.mu.Unlock()
		}
	}
}

func (s moment) key() string { return s.kind[strings.LastIndexByte(s.kind, '.')+1:] + " " + s.name }

// all returns the states in the order in which they were stored.
func (h *history) all() []moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	states := slices.Clone(h.states)
	slices.SortStableFunc(states, func(a, b moment) int { return cmp.Compare(a.version, b.version) })
	return states
}

// left returns the objects that are there.
func (h *history) left() []string {
	is := map[string]bool{}
	for _, s := range h.all() {
		is[s.key()] = true
		if s.gone {
			delete(is, s.key())
		}
	}
	return slices.Sorted(maps.Keys(is))
}

// made returns the number of objects of a name that have been there.
func (h *history) made(key string) int {
	uids := map[types.UID]bool{}
	for _, s := range h.all() {
		if s.key() == key {
			uids[s.uid] = true
		}
	}
	return len(uids)
}

// secrets returns the values that a key of a Secret has had.
func (h *history) secrets(name, key string) []string {
	var values []string
	for _, s := range h.all() {
		if v, ok := s.data[key]; ok && s.name == name && !slices.Contains(values, string(v)) {
			values = append(values, string(v))
		}
	}
	return values
}

// oneWriter returns an error unless at each moment the pods, the StatefulSets, the Lease and the conditions
// of endpoints named one writer of a timeline at most, and no writer was there without the Lease.
func oneWriter(states []moment) error {
	now := map[string]moment{}
	for _, s := range states {
		now[s.key()] = s
		writers, leased := map[string][]string{}, map[string]bool{}
		for key, is := range now {
			if is.timeline != "" {
				writers[is.timeline+" "+is.writer] = append(writers[is.timeline+" "+is.writer], key)
				leased[is.timeline] = leased[is.timeline] || strings.HasPrefix(key, "Lease ")
			}
		}
		timelines := map[string]string{}
		for writer, by := range writers {
			timeline, _, _ := strings.Cut(writer, " ")
			if other, ok := timelines[timeline]; ok {
				return fmt.Errorf("at %s, %v and %v were writers: %v, %v", s.key(), writer, other, by, writers[other])
			}
			if timelines[timeline] = writer; !leased[timeline] {
				return fmt.Errorf("at %s, %v had no Lease: %v", s.key(), writer, by)
			}
		}
	}
	return nil
}

// hasWritten reports that a state of an object named a writer.
func (h *history) hasWritten(key string) bool {
	return slices.ContainsFunc(h.all(), func(s moment) bool { return s.timeline != "" && s.key() == key })
}

func TestOneWriter(t *testing.T) {
	of := func(kind, name, writer string) moment {
		return moment{kind: "p." + kind, name: name, writer: writer, timeline: "1"}
	}
	lease, set, pod := of("Lease", "writer-1", "a"), of("StatefulSet", "a-compute", "a"), of("Pod", "a-compute-0", "a")
	without := func(m moment) moment {
		m.writer, m.timeline = "", ""
		return m
	}
	for name, test := range map[string]struct {
		states []moment
		fails  bool
	}{
		"one":               {[]moment{lease, set, pod}, false},
		"one after another": {[]moment{lease, pod, without(pod), without(lease), of("Lease", "writer-1", "b"), of("Pod", "b-0", "b")}, false},
		"two pods":          {[]moment{lease, pod, of("Pod", "b-0", "b")}, true},
		"two sets":          {[]moment{lease, set, of("StatefulSet", "b", "b")}, true},
		"lease of another":  {[]moment{lease, pod, of("Lease", "writer-1", "b")}, true},
		"no lease":          {[]moment{pod}, true},
		"lease given back":  {[]moment{lease, pod, without(lease), without(pod)}, true},
		"two timelines": {[]moment{lease, pod, {kind: "p.Lease", name: "writer-2", writer: "b", timeline: "2"},
			{kind: "p.Pod", name: "b-0", writer: "b", timeline: "2"}}, false},
	} {
		if err := oneWriter(test.states); (err != nil) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
