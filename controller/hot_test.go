package controller

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

// Reconciles on a real server flip fields of their own object, of a child, or of both, whose
// changes come by two watches. They are reported as hot loops, with fields that the last
// reconcile flipped, and slowed down.
func TestHotLoops(t *testing.T) {
	b := newBench(t)
	flip := [2]string{"false", "true"}
	object := func(ctx context.Context, p *corev1.ConfigMap, n int64) error {
		_, err := kube.For[corev1.ConfigMap](b.client).In(p.Namespace).Patch(ctx, p.Name, types.MergePatchType,
			[]byte(`{"data":{"one":"`+flip[n%2]+`","two":"`+flip[(n+1)%2]+`"}}`))
		return err
	}
	child := func(ctx context.Context, p *corev1.ConfigMap, n int64) error {
		c := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, StringData: map[string]string{"flips": flip[n%2]}}
		if err := kube.SetController(b.parents, p, kube.For[corev1.Secret](b.client).In(p.Namespace), c); err != nil {
			return err
		}
		_, err := kube.For[corev1.Secret](b.client).In(p.Namespace).Apply(ctx, c)
		return err
	}
	remade := func(ctx context.Context, p *corev1.ConfigMap, n int64) error {
		if n%2 == 0 {
			return kube.For[corev1.Secret](b.client).In(p.Namespace).Labeled("of=" + p.Name).DeleteAll(ctx)
		}
		c := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: map[string]string{"of": p.Name}}}
		if err := kube.SetController(b.parents, p, kube.For[corev1.Secret](b.client).In(p.Namespace), c); err != nil {
			return err
		}
		_, err := kube.For[corev1.Secret](b.client).In(p.Namespace).Create(ctx, c)
		return err
	}
	for name, test := range map[string]struct {
		write []func(context.Context, *corev1.ConfigMap, int64) error
		flips []string
	}{
		"object": {[]func(context.Context, *corev1.ConfigMap, int64) error{object},
			[]string{"ConfigMap %/p data.one", "ConfigMap %/p data.two"}},
		"child": {[]func(context.Context, *corev1.ConfigMap, int64) error{child}, []string{"Secret %/p data.flips"}},
		"both": {[]func(context.Context, *corev1.ConfigMap, int64) error{object, child},
			[]string{"ConfigMap %/p data.one", "ConfigMap %/p data.two", "Secret %/p data.flips"}},
		"remade": {[]func(context.Context, *corev1.ConfigMap, int64) error{remade},
			[]string{"Secret %/p (added)", "Secret %/p (deleted)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits most of the time
			b := b.sub(t)
			b.in(b.cluster.Namespace(t))
			var runs atomic.Int64
			counts := metrics.New()
			stop := b.start(Options{Metrics: counts}, Controller[corev1.ConfigMap]{
				For: b.parents, Owns: []kube.AnyHandle{b.children},
				Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
					n := runs.Add(1)
					for _, w := range test.write {
						if err := w(ctx, p, n); err != nil {
							return Done, err
						}
					}
					return Done, nil
				},
			})
			b.create("p")
			b.eventually("the hot loop is said", func() bool { return b.log.count("reconciled in a loop") > 0 })
			named := 0
			for _, f := range test.flips {
				f = strings.ReplaceAll(f, "%", b.namespace)
				named += b.log.count("reconciled in a loop", "object="+b.namespace+"/p", f)
			}
			if named == 0 {
				t.Errorf("the report of the hot loop names none of %q:\n%s", test.flips, b.log.tail(5))
			}
			at := runs.Load()
			time.Sleep(3 * time.Second) // its pace is measured
			if more := runs.Load() - at; more > 8 {
				t.Errorf("%d reconciles in the 3 s after a hot loop was seen", more)
			}
			stop()
			if n := b.log.count("reconciled in a loop"); n != 1 {
				t.Errorf("the hot loop is said %d times", n)
			}
			page := httptest.NewRecorder()
			counts.Handler().ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			// Objects of one name that are created again and again are reported beside the loop.
			want := fmt.Sprintf(`pintle_controller_hot_loops_total{controller="configmap"} %d`, 1+b.log.count("keeps undoing"))
			if !strings.Contains(page.Body.String(), want) {
				t.Errorf("the metrics lack %s", want)
			}
		})
	}
}

// A controller that answers each of many quick changes of another object with writes is
// no hot loop.
func TestBusyIsNotHot(t *testing.T) {
	b := newBench(t)
	b.create("p")
	settings := kube.For[corev1.Secret](b.client).In(b.namespace).Labeled("settings")
	read := func(ctx context.Context) string {
		s, err := settings.Get(ctx, "settings")
		if err != nil {
			return ""
		}
		return s.Labels["settings"]
	}
	var seen atomic.Value
	b.start(Options{}, Controller[corev1.ConfigMap]{
		For: b.parents, Owns: []kube.AnyHandle{b.children},
		Watches: []Source{Mapped(settings, func(context.Context, *corev1.Secret) []kube.Key {
			return []kube.Key{{Namespace: b.namespace, Name: "p"}}
		})},
		Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
			now := read(ctx)
			c := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, StringData: map[string]string{"mark": now}}
			if err := kube.SetController(b.parents, p, b.children, c); err != nil {
				return Done, err
			}
			if _, err := b.children.Apply(ctx, c); err != nil {
				return Done, err
			}
			_, err := b.parents.Patch(ctx, p.Name, types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"seen":"`+now+`"}}}`))
			seen.Store(now)
			return Done, err
		},
	})
	for i := range 200 {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "settings",
			Labels: map[string]string{"settings": strconv.Itoa(i)}}}
		if _, err := b.children.Apply(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	b.eventually("the last change is seen", func() bool { return seen.Load() == "199" })
	time.Sleep(500 * time.Millisecond) // nothing may be said
	if n := b.log.count("reconciled in a loop"); n > 0 {
		t.Errorf("a hot loop is said that is none:\n%s", b.log.tail(5))
	}
}
