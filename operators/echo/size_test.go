package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

// countVariable is the number of Echoes in place of that of a test.
const countVariable = "PINTLE_ECHOES"

// TestSize makes many Echoes at once, changes all their Deployments at once, and
// kills the operator in the middle of both.
func TestSize(t *testing.T) { testSize(t, 60) }

func TestSoakSize(t *testing.T) { testSize(t, 200) }

func testSize(t *testing.T, n int) {
	if text := os.Getenv(countVariable); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s=%q is not a number", countVariable, text)
		}
	}
	b := simulated(t)
	limit := 3*time.Minute + time.Duration(n)*time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	name := func(i int) string { return fmt.Sprintf("echo-%d", i) }
	begun := time.Now()
	took := func(what string) {
		t.Logf("%s: after %s", what, time.Since(begun).Round(100*time.Millisecond))
		begun = time.Now()
	}

	b.each(n, func(i int) error {
		e := new(Echo)
		e.Name, e.Spec.Replicas, e.Spec.Image = name(i), 1, "inanimate/echo-server"
		_, err := b.echoes.Create(ctx, e)
		return err
	})
	took(fmt.Sprintf("%d Echoes are made", n))
	b.none(ctx, "Echoes short of the first half", func() int { return max(0, n/2-countIf(b, b.echoes.Reader, ready)) })
	b.kill()
	b.none(ctx, "Echoes that are not ready", func() int { return n - countIf(b, b.echoes.Reader, ready) })
	took("all are ready")
	b.complete(n)

	b.each(n, func(i int) error {
		_, err := b.deployments.Patch(ctx, name(i), types.MergePatchType, []byte(`{"spec":{"replicas":2,"paused":true}}`))
		return err
	})
	took("all Deployments are changed")
	b.kill()
	b.none(ctx, "Deployments that are not put back", func() int {
		left := n
		for d, err := range b.deployments.List(ctx) {
			b.ok(err)
			if !d.Spec.Paused {
				t.Fatalf("a field that was added to %s has gone", d.Name)
			}
			if *d.Spec.Replicas == 1 && d.Status.Replicas == 1 && d.Status.ObservedGeneration == d.Generation {
				left--
			}
		}
		return left
	})
	b.none(ctx, "Echoes that are not ready again", func() int { return n - countIf(b, b.echoes.Reader, ready) })
	took("all are put back")
	b.complete(n)
	b.steady()
	if bad := optest.Metric(b.T, b.operator, `controller_runtime_reconcile_panics_total`); bad > 0 {
		t.Errorf("%d reconciles panicked", bad)
	}
	t.Logf("since the operator was killed last: %d reconciles, %d requests that write",
		optest.Metric(b.T, b.operator, `controller_runtime_reconcile_total\{.*result="success"`), b.writes())

	begun = time.Now()
	for err := b.echoes.DeleteAll(ctx); err != nil; err = b.echoes.DeleteAll(ctx) {
		b.ok(ctx.Err())
		t.Log(err) // a server with many thousands of Echoes does not finish within the minute that it gives a request
	}
	b.none(ctx, "Echoes", func() int { return count(b, b.echoes.Reader) })
	b.none(ctx, "Services", func() int { return count(b, b.services.Reader) })
	b.none(ctx, "Deployments", func() int { return count(b, b.deployments.Reader) })
	b.none(ctx, "pods", func() int { return count(b, b.pods.Reader) })
	took("all are gone")
}

// each calls f for each number, several at a time.
func (b *bench) each(n int, f func(int) error) {
	b.Helper()
	numbers, failed := make(chan int), make([]error, 16)
	var working sync.WaitGroup
	for w := range failed {
		working.Go(func() {
			for i := range numbers {
				failed[w] = errors.Join(failed[w], f(i))
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	working.Wait()
	b.ok(errors.Join(failed...))
}

// kill ends the operator as a failing machine does, and starts it again.
func (b *bench) kill() {
	b.Helper()
	b.ok(b.operator.Signal(os.Kill))
	<-b.operator.Done()
	b.start()
}

func countIf[T any](b *bench, objects kube.Reader[T], holds func(*T) bool) (n int) {
	b.Helper()
	for o, err := range objects.List(b.Context()) {
		b.ok(err)
		if holds(o) {
			n++
		}
	}
	return n
}

// complete checks that each Echo has exactly one child of each kind.
func (b *bench) complete(n int) {
	b.Helper()
	owners := map[types.UID]string{}
	for e, err := range b.echoes.List(b.Context()) {
		b.ok(err)
		owners[e.UID] = e.Name
	}
	owned := func(o metav1.Object) bool {
		ref := metav1.GetControllerOf(o)
		return ref != nil && owners[ref.UID] == o.GetName()
	}
	deployments, services := 0, 0
	for d, err := range b.deployments.List(b.Context()) {
		b.ok(err)
		if deployments++; !owned(d) {
			b.Errorf("Deployment %s has no Echo of its name", d.Name)
		}
	}
	for s, err := range b.services.List(b.Context()) {
		b.ok(err)
		if services++; !owned(s) {
			b.Errorf("Service %s has no Echo of its name", s.Name)
		}
	}
	if len(owners) != n || deployments != n || services != n {
		b.Errorf("of %d there are %d Echoes, %d Deployments, %d Services", n, len(owners), deployments, services)
	}
}

// none waits until left returns 0. A large number takes longer than kubetest.Eventually waits.
func (b *bench) none(ctx context.Context, what string, left func() int) {
	b.Helper()
	for {
		n := left()
		if n == 0 {
			return
		}
		select {
		case <-ctx.Done():
			b.Fatalf("%d %s are left", n, what)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
