package controller

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

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
	failed atomic.Int64
}

func (b *bench) fight(s *side) {
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
			if is, err := children.Get(ctx, p.Name); err != nil || is.Labels["side"] != s.name {
				s.writes.Add(1)
			}
			_, err := children.Ensure(ctx, c)
			return Done, err
		},
		Failed: func(context.Context, *corev1.ConfigMap, error) error { s.failed.Add(1); return nil },
	})
}

// Two operators want different values in one field. Both are told so, with the field and the
// other's name. Neither is slowed down, and no reconcile has failed.
func TestTwoOperatorsFight(t *testing.T) {
	b := newBench(t)
	sides := []*side{{name: "a"}, {name: "b"}}
	for _, s := range sides {
		b.fight(s)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("side %s wrote %d times and says:\n%s", s.name, s.writes.Load(), s.log.tail(5))
			}
		})
	}
	b.create("p")
	said := func(s, other *side) bool {
		field := "Secret " + b.namespace + "/p metadata.labels[side]"
		return s.log.count("keeps undoing", field, "side-"+other.name+" (Apply)") > 0
	}
	b.eventually("both report the fight, with the other", func() bool {
		return said(sides[0], sides[1]) && said(sides[1], sides[0])
	})
	for _, s := range sides {
		was := s.writes.Load()
		b.eventually("the side writes as before", func() bool { return s.writes.Load() > was+20 })
		if n := s.log.count("keeps undoing"); n != 1 {
			t.Errorf("side %s reports the fight %d times", s.name, n)
		}
		if s.failed.Load() > 0 {
			t.Errorf("side %s is told by Failed", s.name)
		}
	}
}
