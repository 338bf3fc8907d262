package controller

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
)

// mark is a write of the predecessor.
func (b *bench) mark(name, value string) {
	b.Helper()
	if _, err := b.parents.Patch(b.Context(), name, types.MergePatchType,
		[]byte(`{"data":{"mark":"`+value+`"}}`)); err != nil {
		b.Fatal(err)
	}
}

// firstSeen runs a controller with a lease, on connections with a wire. It returns the
// predecessor's writes that the controller's first reconcile sees.
func (b *bench) firstSeen(w wire, name string) <-chan string {
	parents := kube.For[corev1.ConfigMap](b.connect(w)).In(b.namespace).Labeled("role=parent")
	seen := make(chan string, 1)
	b.start(Options{Lease: lease.Lease{Name: name, Namespace: b.namespace}}, Controller[corev1.ConfigMap]{
		For: parents, Reconcile: func(_ context.Context, p *corev1.ConfigMap) (Action, error) {
			select {
			case seen <- p.Data["mark"]:
			default:
			}
			return Done, nil
		},
	})
	return seen
}

func (b *bench) wantSeen(seen <-chan string, want string) {
	b.Helper()
	select {
	case got := <-seen:
		if got != want {
			b.Errorf("the first reconcile sees %q, want the predecessor's last write, %q", got, want)
		}
	case <-time.After(patience):
		b.Fatalf("nothing is reconciled:\n%s", b.log.tail(30))
	}
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }

func isList(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps") && !isWatch(r)
}

// A process acquires a lease that another process has just given up. It has the other's
// last writes, though it has never seen the other hold the lease.
func TestPredecessorThatWasNotSeen(t *testing.T) {
	b := newBench(t)
	b.create("p")
	looks, gone := make(chan struct{}), make(chan struct{})
	var looked atomic.Bool
	seen := b.firstSeen(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		switch {
		case strings.Contains(r.URL.Path, "/leases/") && looked.CompareAndSwap(false, true):
			close(looks)
			<-gone
		case strings.HasSuffix(r.URL.Path, "/configmaps") && isWatch(r):
			<-r.Context().Done() // the answer is slow
			return nil, r.Context().Err()
		case isList(r):
			answer, err := send()
			<-gone
			return answer, err
		}
		return send()
	}, "unseen")
	<-looks
	time.Sleep(500 * time.Millisecond) // time for a listing that should not be made yet
	b.mark("p", "last")
	close(gone)
	b.wantSeen(seen, "last")
}

// A standby whose watch is behind has the predecessor's last writes too, even if the
// server cannot tell them at once.
func TestStandbyIsBehind(t *testing.T) {
	b := newBench(t)
	b.create("p")
	holds, leave := make(chan struct{}), make(chan struct{})
	left := make(chan error, 1)
	go func() {
		l := lease.Lease{Client: b.client, Name: "behind", Namespace: b.namespace}
		left <- l.Run(context.WithoutCancel(t.Context()), func(context.Context) error {
			close(holds)
			<-leave
			return nil
		})
	}()
	<-holds
	var lists atomic.Int32
	seen := b.firstSeen(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/configmaps") && isWatch(r):
			<-r.Context().Done()
			return nil, r.Context().Err()
		case isList(r):
			if n := lists.Add(1); n == 2 || n == 3 {
				return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody, Header: http.Header{},
					Request: r}, nil
			}
		}
		return send()
	}, "behind")
	b.eventually("the standby has its stores", func() bool { return lists.Load() == 1 })
	b.mark("p", "last")
	close(leave)
	if err := <-left; err != nil {
		t.Error(err)
	}
	b.wantSeen(seen, "last")
	if n := b.log.count("cannot catch up", "trying again"); n != 1 {
		t.Errorf("that it cannot catch up was said %d times:\n%s", n, b.log)
	}
}
