package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
)

// death is the way a program ends: at one of its writes, before the server has got it or
// after.
type death struct {
	at   int64
	lost string // "request" or "answer"

	writes atomic.Int64
	dead   chan struct{}
	die    func()
}

func newDeath(at int, lost string) *death {
	d := &death{at: int64(at), lost: lost, dead: make(chan struct{})}
	d.die = sync.OnceFunc(func() { close(d.dead) })
	return d
}

var errDead = errors.New("the program has ended")

func (d *death) wire(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	if d.has() {
		return nil, errDead
	}
	if r.Method == http.MethodGet || d.writes.Add(1) < d.at {
		return send()
	}
	defer d.die()
	if d.lost == "answer" {
		if resp, err := send(); err == nil {
			resp.Body.Close()
		}
	}
	return nil, errDead
}

func (d *death) has() bool {
	select {
	case <-d.dead:
		return true
	default:
		return false
	}
}

// guarded watches an object and fails the test if it loses all its finalizers before
// the cleanup.
func (b *bench) guarded(name string, out *outside) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var watching sync.WaitGroup
	watching.Go(func() {
		guarded := false
		for ev, err := range kube.For[corev1.ConfigMap](b.client).In(b.namespace).Watch(ctx) {
			if err != nil || ev.Object == nil || ev.Object.Name != name {
				continue
			}
			n := 0
			for _, f := range ev.Object.Finalizers {
				if f == testFinalizer || f == formerFinalizer {
					n++
				}
			}
			switch {
			case n > 1:
				b.Errorf("%s has the finalizers %q at a time", name, ev.Object.Finalizers)
			case n == 0 && guarded && out.has(name):
				b.Errorf("%s is without a finalizer before its cleanup", name)
			}
			guarded = n > 0
		}
	})
	return func() { cancel(); watching.Wait() }
}

// One process ends at any point, and the next process goes on with its work. Nothing is
// left behind, and nothing is done without the finalizer, also if the next process takes
// over the finalizer of a predecessor.
func TestFinalizerSurvivesCrashes(t *testing.T) {
	b := newBench(t)
	for _, carries := range [][]string{
		nil, {formerFinalizer}, {"example.com/other", formerFinalizer}, {formerFinalizer, testFinalizer},
	} {
		// A life has three writes: the finalizer, the reconcile's own, the finalizer
		// again. The program ends before or after each of them.
		for _, lost := range []string{"request", "answer"} {
			for n := 1; n <= 3; n++ {
				t.Run(fmt.Sprintf("%s %d is lost carrying %q", lost, n, carries), func(t *testing.T) {
					b := b.sub(t)
					b.live(fmt.Sprintf("p-%d-%s-%d", len(strings.Join(carries, "")), lost, n), carries, newDeath(n, lost))
				})
			}
		}
	}
}

// live lets a program die and another one go on.
func (b *bench) live(name string, carries []string, d *death) {
	out := new(outside)
	program := func(client *kube.Client) Controller[corev1.ConfigMap] {
		c := b.cleaner(kube.For[corev1.ConfigMap](client).In(b.namespace).Labeled("role=parent"), out)
		c.FormerFinalizers = []string{"example.com/older", formerFinalizer}
		return c
	}
	o := parent(name)
	o.Finalizers = carries
	if _, err := b.parents.Create(b.Context(), o); err != nil {
		b.Fatal(err)
	}
	if slices.Contains(carries, formerFinalizer) {
		out.set(name, true) // by the predecessor
	}
	if !slices.Contains(carries, testFinalizer) {
		defer b.guarded(name, out)()
	}
	stop := b.start(Options{Grace: time.Millisecond}, program(b.connect(d.wire)))
	if d.at == 3 {
		b.eventually("the object is reconciled", func() bool { return d.writes.Load() >= 2 })
		b.delete(name)
	}
	b.eventually("the program ends", d.has)
	stop()
	stop = b.start(Options{}, program(b.client))
	defer stop()
	if d.at < 3 {
		b.eventually("the next program has reconciled", func() bool {
			p, err := b.parents.Get(b.Context(), name)
			return err == nil && p.Data["seen"] == "true" && out.has(name)
		})
		b.delete(name)
	}
	b.release(name, "example.com/other")
	b.eventually("the object is gone", func() bool {
		_, err := b.parents.Get(b.Context(), name)
		return apierrors.IsNotFound(err)
	})
	if out.has(name) {
		b.Error("the cleanup has left something behind")
	}
}
