package wire

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// serve serves a counter of calls behind faults.
func serve(t *testing.T, f *Faults, calls *atomic.Int32) (string, Client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	handler := f.Wrap(Handler(func(*http.Request) (Answer, error) {
		return OK(calls.Add(1)), nil
	}))
	go func() { over <- Serve(ctx, listener, handler) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
	return "http://" + listener.Addr().String(), Client{HTTP: &http.Client{Transport: transport}}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	var f Faults
	var calls atomic.Int32
	url, client := serve(t, &f, &calls)
	f.Add(Fault{Method: http.MethodPost, Path: "/a", Status: 503, Times: 2})
	f.Add(Fault{Path: "/lost", Lost: true, Times: 1})
	f.Add(Fault{Path: "/hang", Hang: true})

	type result struct {
		status int
		calls  int
	}
	var got []result
	for _, r := range []struct{ method, path string }{
		{http.MethodGet, "/a"}, {http.MethodPost, "/a"}, {http.MethodPost, "/a"}, {http.MethodPost, "/a"},
		{http.MethodPost, "/lost"}, {http.MethodPost, "/lost"}, {http.MethodGet, "/hang"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := client.Do(ctx, r.method, url+r.path, nil, nil)
		cancel()
		status := 200
		var failed *Error
		switch {
		case errors.As(err, &failed):
			status = failed.Status
		case err != nil:
			status = 0
		}
		got = append(got, result{status, int(calls.Load())})
	}
	want := []result{{200, 1}, {503, 1}, {503, 1}, {200, 2}, {0, 3}, {200, 4}, {0, 4}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("status and calls served (-want +got):\n%s", diff)
	}
	if requests := f.Requests(); len(requests) < 6 || requests[0].Path != "/a" || requests[1].Status != 503 {
		t.Errorf("record of requests: %+v", requests)
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	key := token.New()
	public := key.Public()
	auth := Auth{Key: &public}
	const tenant = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1"
	for name, c := range map[string]struct {
		header string
		want   int
	}{
		"scope":          {"Bearer " + key.Sign(token.Claims{Scope: token.Pageserver}), 0},
		"another scope":  {"Bearer " + key.Sign(token.Claims{Scope: token.Admin}), 403},
		"tenant":         {"Bearer " + key.Sign(token.Claims{Scope: token.Tenant, TenantID: tenant}), 0},
		"another tenant": {"Bearer " + key.Sign(token.Claims{Scope: token.Tenant, TenantID: "b"}), 403},
		"another key":    {"Bearer " + token.New().Sign(token.Claims{Scope: token.Pageserver}), 403},
		"no token":       {"", 401},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.header != "" {
			request.Header.Set("Authorization", c.header)
		}
		got := 0
		var failed *Error
		if errors.As(auth.Check(request, tenant, token.Pageserver), &failed) {
			got = failed.Status
		}
		if got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
