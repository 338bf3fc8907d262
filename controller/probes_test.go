package controller

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/metrics"
)

// waitingRequests are requests whose clients let the server wait.
var waitingRequests = map[string]string{
	"nothing is said":                "",
	"half a header":                  "GET /healthz HTTP/1.1\r\nHost: x\r\n",
	"a body that is not sent":        "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
	"half a body":                    "GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello",
	"a body for an unknown path":     "PUT /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
	"chunks that are not sent":       "GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
	"half a chunk":                   "GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
	"leave to send is awaited":       "GET /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n",
	"an old client":                  "GET /healthz HTTP/1.0\r\nContent-Length: 10\r\n\r\n",
	"an old client that stays":       "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 10\r\n\r\n",
	"a route waits for the body":     "POST /take HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
	"a route that is slow to answer": "GET /give HTTP/1.1\r\nHost: x\r\n\r\n",
}

// The clients of a connection on which the server waits for them keep no others out for
// more than a moment.
func TestWaitingForClientsKeepsNobodyOut(t *testing.T) {
	routes := []Route{
		{Pattern: "POST /take", Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		})},
		{Pattern: "GET /give", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 1<<20))
		})},
	}
	for name, request := range waitingRequests {
		for _, reads := range []bool{true, false} {
			if reads && name == "a route that is slow to answer" {
				continue
			}
			t.Run(name+map[bool]string{true: ", the answer is taken"}[reads], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := serveHere(t, &program{Options: Options{Routes: routes}})
					fill(t, l, maxConnections, request, reads)
					time.Sleep(2 * time.Second)
					asked := time.Now()
					if code, _ := l.request(t, "GET /healthz HTTP/1.1", ""); code != http.StatusOK {
						t.Errorf("a request: %d", code)
					}
					if took := time.Since(asked); took > quietTime {
						t.Errorf("a request is answered after %s", took)
					}
				})
			})
		}
	}
}

// fill opens n connections and sends a request on each of them.
func fill(t *testing.T, l *pipes, n int, request string, reads bool) {
	t.Helper()
	for range n {
		conn := l.dial(t)
		if reads {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
		go func() { _, _ = io.WriteString(conn, request) }() // it may be closed before
	}
	synctest.Wait()
}

// A probe is answered at once while others connect to the probes' port, whatever they do,
// even if each of their requests waits for a check, and in each moment of their attack.
func TestProbesBesideAttackers(t *testing.T) {
	requests := map[string]string{"a check hangs": "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"}
	for name, request := range waitingRequests {
		requests[name] = request
	}
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
				l := probesHere(t, &program{Options: Options{Checks: []Check{{Name: "own", Ready: hangs}}}})
				for range 10 {
					fill(t, l, maxProbes, request, false)
					asked := time.Now()
					if code, _ := l.request(t, "GET /healthz HTTP/1.1", ""); code != http.StatusOK {
						t.Errorf("a probe: %d", code)
					}
					if took := time.Since(asked); took > 0 {
						t.Errorf("a probe is answered after %s", took)
					}
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(checkTime) // until no check hangs
			})
		})
	}
}

// A connection to the probes' port has one request, and ends soon if the request does not
// come.
func TestProbesEnd(t *testing.T) {
	for name, request := range waitingRequests {
		synctest.Test(t, func(t *testing.T) {
			l := probesHere(t, new(program))
			conn := l.dial(t)
			go func() { _, _ = io.WriteString(conn, request) }()
			began := time.Now()
			_, _ = io.Copy(io.Discard, conn)
			if took := time.Since(began); took > probeTime {
				t.Errorf("%s: the connection ends after %s", name, took)
			}
		})
	}
}

// The probes' port answers only probes.
func TestProbesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		route := Route{Pattern: "GET /route", Handler: http.NotFoundHandler()}
		l := probesHere(t, &program{Options: Options{Profiles: http.NotFoundHandler(), Routes: []Route{route}}})
		for head, want := range map[string]int{
			"GET /healthz": 200, "GET /readyz": 503, "POST /healthz": 405,
			"GET /metrics": 404, "GET /debug/pprof/": 404, "GET /route": 404, "GET /": 404,
		} {
			if code, _ := l.request(t, head+" HTTP/1.1", ""); code != want {
				t.Errorf("%s: %d, want %d", head, code, want)
			}
		}
	})
}

// Over real connections: clients that hold every connection of both ports, some of them
// half closed, do not keep a probe out.
func TestProbesOverLoopback(t *testing.T) {
	address, probes := testport.Address(t), testport.Address(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	log := new(logs)
	go func() {
		o := Options{Address: address, ProbeAddress: probes, Logger: slog.New(log), Metrics: metrics.New()}
		ended <- Run(ctx, o)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	probe := func(path string) int {
		code, _ := ask(t, http.MethodGet, "http://"+probes+path, "")
		return code
	}
	for until := time.Now().Add(patience); probe("/healthz") != http.StatusOK; {
		if time.Now().After(until) {
			t.Fatalf("no probe is answered:\n%s", log)
		}
		time.Sleep(10 * time.Millisecond)
	}
	var first net.Conn
	for name, request := range waitingRequests {
		for i := range maxProbes {
			for _, to := range []string{address, probes} {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", to)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				_, _ = io.WriteString(conn, request)
				if i%2 == 1 {
					_ = conn.(*net.TCPConn).CloseWrite()
				}
				if first == nil && to == probes {
					first = conn
				}
			}
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			if code := probe(path); code != http.StatusOK {
				t.Errorf("%s: a probe of %s: %d", name, path, code)
			}
		}
	}
	if err := first.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, first); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first connection is still open: %v", err)
	}
}
