package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

const account = "shop-operator"

// TestRights runs the program with a token of its service account, under exactly the
// roles that it prints, and under those roles without one verb at a time, for some verbs.
func TestRights(t *testing.T) { underRights(t, optest.Sample) }

// TestSoakRights leaves out each right.
func TestSoakRights(t *testing.T) { underRights(t, optest.Each) }

func underRights(t *testing.T, choose func([]optest.Right) []optest.Right) {
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 2})
	client := optest.Client(t, cluster.Config())
	op, err := describe(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(t.Context(), client, op.Definitions...); err != nil {
		t.Fatal(err)
	}
	all := binary.Rights(t)

	optest.UnderRights(t, all, choose, op, func(t *testing.T, without ...optest.Right) *optest.Proxy {
		t.Parallel()
		s := newScene(t, cluster, all, without...)
		s.play()
		return s.proxy
	})
}

// scene is a bench whose program has the rights of its service account.
type scene struct {
	*bench
	proxy *optest.Proxy
	lease *optest.Lease
	down  atomic.Bool // the payment service
}

func newScene(t *testing.T, cluster *kubetest.Cluster, all []optest.Right, without ...optest.Right) *scene {
	t.Helper()
	s := &scene{bench: newBench(t, cluster)}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			http.Error(w, "the service is down", http.StatusServiceUnavailable)
			return
		}
		s.service.ServeHTTP(w, r)
	}))
	t.Cleanup(service.Close)
	s.proxy = optest.StartProxy(t, cluster.Config(), s.namespace)
	s.lease = optest.HoldLease(t, s.client, account, s.proxy)
	a := optest.NewAccount(t, s.client, cluster.Config(), s.namespace, account, all, without...)
	s.operator = binary.Run(
		t, a.Kubeconfig(s.proxy), "-addr=127.0.0.1:0", "-install=false", "-lease", "-payments="+service.URL,
	)
	return s
}

// play has the program do everything that it can, until a request is refused.
func (s *scene) play() {
	s.Helper()
	for _, step := range []func(){s.acquire, s.fail, s.create, s.renew, s.shrink, s.migrate, s.grow, s.remove} {
		if step(); len(s.proxy.Used.Refused()) > 0 {
			return
		}
	}
	// The recorder writes the last repetitions of events at the end.
	s.ok(s.operator.Signal(syscall.SIGTERM))
	if code := optest.ExpectEnd(s, s.operator); code != 0 {
		s.Errorf("status %d", code)
	}
}

// wait waits for a condition, or for a refused request.
func (s *scene) wait(what string, holds func() bool) {
	s.Helper()
	kubetest.Eventually(s, what, func() error {
		if len(s.proxy.Used.Refused()) == 0 && !holds() {
			lines, _ := s.operator.Lines()
			return fmt.Errorf("not so, no request was refused, and the operator has said\n| %s", strings.Join(lines, "\n| "))
		}
		return nil
	})
}

// shop waits until a condition of the Shop holds.
func (s *scene) shop(what string, holds func(*Shop) bool) {
	s.Helper()
	s.wait(what, func() bool {
		is, err := s.shops.Get(s.Context(), "corner")
		s.ok(err)
		return holds(is)
	})
}

// acquire gives the lease to the program while the program watches it.
func (s *scene) acquire() {
	s.Helper()
	s.wait("the program waits for the lease", func() bool { return s.lease.Awaited(s.operator) })
	s.lease.Release()
}

// fail makes reconciles fail often enough that an event is repeated.
func (s *scene) fail() {
	s.Helper()
	s.down.Store(true)
	s.greet("Come in!")
	s.apply()
	s.wait("reconciles fail", func() bool {
		lines, _ := s.operator.Lines()
		return strings.Count(strings.Join(lines, "\n"), "the service is down") > 4
	})
	s.down.Store(false)
}

func (s *scene) create() {
	s.Helper()
	s.shop("the shop is ready", isReady)
}

// renew deletes the lease, which the program then creates again.
func (s *scene) renew() {
	s.Helper()
	s.lease.Delete()
	s.wait("there is a lease again", s.lease.Exists)
}

// shrink lets a region leave.
func (s *scene) shrink() {
	s.Helper()
	s.change(func(s *Shop) { s.Spec.Regions = []string{"east"} })
	s.shop("the region has left", func(s *Shop) bool { return isReady(s) && state(s, "region/west") == "" })
}

// migrate changes the image, so that the Job is deleted and created again.
func (s *scene) migrate() {
	s.Helper()
	s.change(func(s *Shop) { s.Spec.Image = "shop:v2" })
	s.shop("the shop has another image", isReady)
}

// grow makes the database's volume grow.
func (s *scene) grow() {
	s.Helper()
	s.change(func(s *Shop) { s.Spec.Storage = resource.MustParse("2Gi") })
	s.shop("the volume has grown", isReady)
}

func (s *scene) remove() {
	s.Helper()
	s.ok(s.shops.Delete(s.Context(), "corner"))
	s.wait("the shop is gone", func() bool {
		_, err := s.shops.Get(s.Context(), "corner")
		return apierrors.IsNotFound(err)
	})
}
