package compute

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/proxy"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
)

// wake starts a compute whenever somebody wants it.
type wake struct {
	p      *process
	config spec.Config
}

func (w wake) Wake(context.Context, string) (string, error) {
	select {
	case <-w.p.done:
		w.p.run(w.config)
	default:
	}
	w.p.wait("running")
	return fmt.Sprintf("127.0.0.1:%d", w.p.in.Port), nil
}

// A client that connects to a suspended compute waits for it, gets in and finds its rows.
func TestAClientWakesASuspendedCompute(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	p.must("create table t as select generate_series(1, 100000) n")
	if status, said := p.call(http.MethodPost, "/terminate?mode=immediate", ""); status != http.StatusOK {
		t.Fatalf("terminate: %d %s", status, said)
	}
	p.ended(30 * time.Second)
	config, err := spec.Render(p.in)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- proxy.New(proxy.Config{Waker: wake{p, config}}).Serve(ctx, l, "ep-1") }()
	client := &process{t: t, s: s, in: p.in}
	client.in.Port = l.Addr().(*net.TCPAddr).Port
	began := time.Now()
	got, err := client.queryWithin(30*time.Second, "app", "appdb", "select count(*)::text from t")
	if err != nil || got != "100000" {
		t.Errorf("%s rows of 100000, %v", got, err)
	}
	t.Logf("answered after %s", time.Since(began).Round(time.Millisecond))
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
