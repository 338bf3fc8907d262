package controller

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
)

// side is an operator that wants a label of a child to have a value of its own.
type side struct {
	name   string
	log    *logs
	writes atomic.Int64
	told   atomic.Pointer[HotLoopError]
}

func (b *bench) fight(s *side, ensure bool) {
	b.Helper()
	config := b.cluster.Config()
	s.log = new(logs)
	client, err := kube.Config{Rest: config, Logger: slog.New(s.log), FieldManager: "side-" + s.name}.Connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	parents := kube.For[corev1.ConfigMap](client).In(b.namespace).Labeled("role=parent")
	children := kube.For[corev1.Secret](client).In(b.namespace)
	b.start(Options{Logger: slog.New(s.log), Events: new(event.Recorder)}, Controller[corev1.ConfigMap]{
		For: parents, Owns: []kube.AnyHandle{children},
		Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
			c := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: map[string]string{"side": s.name}}}
			if err := kube.SetController(parents, p, children, c); err != nil {
				return Done, err
			}
			if !ensure {
				s.writes.Add(1)
				_, err := children.Apply(ctx, c)
				return Done, err
			}
			if is, err := children.Get(ctx, p.Name); err != nil || is.Labels["side"] != s.name {
				s.writes.Add(1)
			}
			_, err := children.Ensure(ctx, c)
			return Done, err
		},
		Failed: func(_ context.Context, _ *corev1.ConfigMap, err error) error {
			if hot := (*HotLoopError)(nil); errors.As(err, &hot) {
				s.told.Store(hot)
			}
			return nil
		},
	})
}

// Two operators want different values in one field. Both are told so, with the field and
// the other's name. After that they write once a second at most.
func TestTwoOperatorsFight(t *testing.T) {
	for _, ensure := range []bool{true, false} {
		t.Run(map[bool]string{true: "Ensure", false: "Apply"}[ensure], func(t *testing.T) {
			t.Parallel() // both wait most of the time
			b := newBench(t)
			sides := []*side{{name: "a"}, {name: "b"}}
			for _, s := range sides {
				b.fight(s, ensure)
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("side %s wrote %d times and says:\n%s", s.name, s.writes.Load(), s.log.tail(5))
					}
				})
			}
			b.create("p")
			said := func(s, other *side) bool {
				return s.log.count("reconciled in a loop", "Secret "+b.namespace+"/p metadata.labels[side]",
					"side-"+other.name+" (Apply)") > 0
			}
			b.eventually("both report the fight, with the other", func() bool {
				return said(sides[0], sides[1]) && said(sides[1], sides[0])
			})
			var before [2]int64
			for i, s := range sides {
				before[i] = s.writes.Load()
			}
			const watched = 10 * time.Second
			time.Sleep(watched) // their pace is measured
			for i, s := range sides {
				n := s.writes.Load() - before[i]
				t.Logf("side %s wrote %d times until both had reported, and %d times in the %s after that", s.name, before[i], n,
					watched)
				if n > 13 {
					t.Errorf("side %s wrote %d times in %s after the report", s.name, n, watched)
				}
				if s.told.Load() == nil {
					t.Errorf("side %s is not told by Failed", s.name)
				} else {
					t.Log(s.told.Load())
				}
			}
		})
	}
}
