package lease

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// swallower stands between clients and a server. It can swallow the traffic of all
// existing connections, which stay open. A router that has forgotten its connections does
// the same.
type swallower struct {
	net.Listener
	to      string
	passing sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	lost  *atomic.Bool // of the existing connections: their traffic is
}

func startSwallower(t *testing.T, to string) *swallower {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &swallower{Listener: l, to: to, lost: new(atomic.Bool)}
	s.passing.Go(s.accept)
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.passing.Wait()
	})
	return s
}

func (s *swallower) accept() {
	for {
		from, err := s.Accept()
		if err != nil {
			return
		}
		to, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.to)
		if err != nil {
			from.Close()
			continue
		}
		s.mu.Lock()
		lost := s.lost
		s.conns = append(s.conns, from, to)
		s.mu.Unlock()
		s.passing.Go(func() { pass(from, to, lost) })
		s.passing.Go(func() { pass(to, from, lost) })
	}
}

func pass(from, to net.Conn, lost *atomic.Bool) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		switch {
		case lost.Load() && err == nil:
			continue
		case lost.Load():
			return // the client is not told
		case err == nil:
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			from.Close()
			to.Close()
			return
		}
	}
}

// swallow loses the traffic of the existing connections. Later connections work.
func (s *swallower) swallow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost.Store(true)
	s.lost = new(atomic.Bool)
}

// A hanging connection that reports no error does not cost the lease, whether it is the
// lease's own connection or that of all other requests.
func TestConnectionHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server")
	}
	t.Parallel()
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	config := cluster.Config()
	through := startSwallower(t, config.Host[len("https://"):])
	config.Host = "https://" + through.Addr().String()
	client, err := kube.Config{Rest: config, Logger: testLogger(t, "a")}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	maps := kube.For[corev1.ConfigMap](client).In("default")
	hung := errors.New("hung")
	l := Lease{
		Client: client, Namespace: cluster.Namespace(t), Name: "hangs", Margin: time.Second, Logger: testLogger(t, "a"),
	}
	err = l.Run(t.Context(), func(ctx context.Context) error {
		// The connection of all other requests.
		if _, err := maps.Get(ctx, "none"); !apierrors.IsNotFound(err) {
			return err
		}
		through.swallow()
		short, cancel := context.WithTimeoutCause(ctx, 2*time.Second, hung)
		defer cancel()
		if _, err := maps.Get(short, "none"); !errors.Is(err, hung) {
			t.Errorf("a request on a connection that hangs: %v", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Second): // for longer than the lease lasts
			return nil
		}
	})
	if err != nil {
		t.Error(err)
	}
}
