package kube

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kubetest"
)

// TestWatchInPages lists more than two pages from a real API server, while objects
// change, and follows the later changes.
func TestWatchInPages(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	ns := cluster.Namespace(t)
	c, err := Config{Rest: cluster.Config(), Logger: testLogger(t)}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cms := For[corev1.ConfigMap](c).In(ns)
	const n = 2*pageSize + 100
	put := func(i, round int) {
		name := fmt.Sprint("o", i)
		if _, err := cms.Apply(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name},
			Data: map[string]string{"note": fmt.Sprintf("%s|%d", name, round)}}); err != nil {
			t.Error(err)
		}
	}
	inParallel(8, n, func(i int) { put(i, 0) })

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	ck := newChecker(t, "in pages")
	running.Go(func() { checkWatch(ctx, cms.ReadOnly(), inPages, ck, noteOfConfigMap) })
	inParallel(4, 200, func(i int) { put(5*i, 1) })
	inParallel(4, 50, func(i int) {
		if err := cms.Delete(ctx, fmt.Sprint("o", 7*i)); err != nil {
			t.Error(err)
		}
	})
	want, err := serverAt(ctx, cms.handle, ns, "")
	if err != nil {
		t.Fatal(err)
	}
	for diff := "x"; diff != ""; {
		if diff = differ(ck.now(), want); diff != "" && sleep(ctx, 50*time.Millisecond) != nil {
			t.Fatalf("it does not become equal to the server's objects:%s", diff)
		}
	}
	marks := ck.takeMarks()
	if len(marks) == 0 {
		t.Fatal("no sync mark")
	}
	for _, m := range marks {
		at, err := serverAt(ctx, cms.handle, ns, m.rv)
		if err != nil {
			t.Fatal(err)
		}
		if diff := differ(m.state, at); diff != "" && at != nil {
			t.Errorf("at the mark of %s:%s", m.rv, diff)
		}
	}
}

// inParallel calls f for 0 to n-1 from some goroutines.
func inParallel(goroutines, n int, f func(i int)) {
	var running sync.WaitGroup
	for g := range goroutines {
		running.Go(func() {
			for i := g; i < n; i += goroutines {
				f(i)
			}
		})
	}
	running.Wait()
}
