package thirdparty

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/lease"
)

// A program that moves from controller-runtime has processes of both kinds while
// it is rolled out: those with client-go's leader election and those with
// package lease compete for one Lease.

const (
	leaseDuration = 12 * time.Second // client-go gives up after 5/8 of it
	// leasePatience is how long a candidate may take to act, on a busy machine too.
	leasePatience = 2 * time.Minute
)

func TestLeaseWithClientGo(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	namespace := cluster.Namespace(t)
	kinds := map[string]func(*candidate){"pintle": (*candidate).runPintle, "client-go": (*candidate).runClientGo}
	ends := map[string]func(*candidate){"releases": (*candidate).release, "dies": (*candidate).die}
	for holder, next := range map[string]string{"pintle": "client-go", "client-go": "pintle"} {
		for how, end := range ends {
			t.Run(holder+" "+how, func(t *testing.T) {
				t.Parallel()
				s := &scene{T: t, config: cluster.Config(), namespace: namespace, name: holder[:1] + "-" + how}
				first := s.start("first-"+holder, kinds[holder], how == "dies")
				first.awaitActing()
				second := s.start("second-"+next, kinds[next], false)
				// This is longer than a lease lasts that is not renewed.
				time.Sleep(leaseDuration + leaseDuration/2)
				if !first.acts() || second.acts() {
					t.Fatalf("the holder acts: %t, the other: %t", first.acts(), second.acts())
				}
				end(first)
				ended := time.Now()
				second.awaitActing()
				t.Logf("%s acts %s after %s %s", second.name, time.Since(ended).Round(10*time.Millisecond), first.name, how)

				// And back again, to a candidate of the first kind.
				third := s.start("third-"+holder, kinds[holder], false)
				second.release()
				third.awaitActing()
				third.release()
			})
		}
	}
}

// A process that takes over does not disturb a holder with client-go's leader election.
// client-go knows no claims, so the process waits as any candidate does.
func TestTakeOverFromClientGo(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	s := &scene{T: t, config: cluster.Config(), namespace: cluster.Namespace(t), name: "claimed"}
	first := s.start("first-client-go", (*candidate).runClientGo, false)
	first.awaitActing()
	second := s.start("second-takes-over", (*candidate).runTakeOver, false)
	time.Sleep(2 * leaseDuration) // time for many renewals of the lease and of the claim
	if !first.acts() || second.acts() {
		t.Fatalf("the holder acts: %t, the other: %t", first.acts(), second.acts())
	}
	first.release()
	second.awaitActing()
	second.release()
}

// scene is a Lease with its candidates, of which one may act at a time.
type scene struct {
	*testing.T
	config          *rest.Config
	namespace, name string

	mu     sync.Mutex
	acting string
}

func (s *scene) begins(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acting != "" {
		s.Errorf("%s begins to act while %s acts", who, s.acting)
	}
	s.acting = who
}

func (s *scene) ends(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acting == who {
		s.acting = ""
	}
}

// candidate is a process that competes for the lease.
type candidate struct {
	*scene
	name string
	dies bool
	cut  atomic.Bool // nothing it sends arrives after this

	began    chan struct{}   // closed when it acts
	work     context.Context //nolint:containedctx // of the candidate's work; a test ends that by itself
	stopWork context.CancelFunc
	stopped  chan struct{}   // closed when the work has ended
	ctx      context.Context //nolint:containedctx // of the candidate, which lives between calls
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the election has ended
}

func (s *scene) start(name string, run func(*candidate), dies bool) *candidate {
	c := &candidate{
		scene: s, name: name, dies: dies, began: make(chan struct{}), stopped: make(chan struct{}),
		ended: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(s.Context()))
	c.work, c.stopWork = context.WithCancel(c.ctx)
	go func() {
		defer close(c.ended)
		run(c)
	}()
	s.Cleanup(func() {
		c.cancel()
		<-c.ended
	})
	return c
}

// act is the work under the lease.
func (c *candidate) act(ctx context.Context) {
	defer close(c.stopped)
	c.begins(c.name)
	defer c.scene.ends(c.name)
	close(c.began)
	select {
	case <-ctx.Done():
	case <-c.work.Done():
	}
}

func (c *candidate) acts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acting == c.name
}

func (c *candidate) awaitActing() {
	c.Helper()
	select {
	case <-c.began:
	case <-time.After(leasePatience):
		c.Fatalf("%s does not act within %s", c.name, leasePatience)
	}
}

// release ends the candidate's work and then gives the lease up.
func (c *candidate) release() {
	c.stopWork()
	<-c.stopped
	c.cancel()
	<-c.ended
}

// die cuts the candidate off.
func (c *candidate) die() { c.cut.Store(true) }

// connection returns a configuration whose requests can be cut off: they arrive nowhere,
// and are not answered.
func (c *candidate) connection() *rest.Config {
	config := rest.CopyConfig(c.config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return cuttable{rt, &c.cut} })
	return config
}

type cuttable struct {
	http.RoundTripper
	cut *atomic.Bool
}

func (t cuttable) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.cut.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return t.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper lets idle connections be closed.
func (t cuttable) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (c *candidate) runPintle() { c.runLease(lease.Lease{}) }

func (c *candidate) runTakeOver() { c.runLease(lease.Lease{TakeOver: true}) }

func (c *candidate) runLease(l lease.Lease) {
	client, err := kube.Config{Rest: c.connection()}.Connect()
	if err != nil {
		c.Error(err)
		return
	}
	defer client.Close()
	l.Client, l.Namespace, l.Name, l.Identity = client, c.namespace, c.scene.name, c.name
	l.Duration, l.Logger = leaseDuration, slog.New(slog.DiscardHandler)
	err = l.Run(c.ctx, func(ctx context.Context) error {
		c.act(ctx)
		return nil
	})
	if lost := errors.Is(err, lease.ErrLost); lost != c.cut.Load() || err != nil && !lost {
		c.Errorf("%s: %v", c.name, err)
	}
}

func (c *candidate) runClientGo() {
	config := c.connection()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		c.Error(err)
		return
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	leases, err := coordinationv1.NewForConfigAndClient(config, client)
	if err != nil {
		c.Error(err)
		return
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: c.namespace, Name: c.scene.name},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.name},
		},
		LeaseDuration: leaseDuration, RenewDeadline: leaseDuration * 5 / 8, RetryPeriod: leaseDuration / 8,
		// The functions that client-go calls go on until a release has been answered. A
		// candidate that is cut off would act for another RenewDeadline, longer than the
		// lease lasts.
		ReleaseOnCancel: !c.dies,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: c.act, OnStoppedLeading: func() {}},
	})
	if err != nil {
		c.Error(err)
		return
	}
	elector.Run(c.ctx)
}
