package controller

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/lease"
)

// The address stays open after a stop only in a pod to which others send requests, and no
// longer than Grace, which has begun with the stop.
func TestDrain(t *testing.T) {
	begun := time.Now()
	for name, test := range map[string]struct {
		drain
		since, want time.Duration
	}{
		"in a pod":                   {drain{inPod: true, called: true, grace: time.Minute}, 0, drainTime},
		"the work took a moment":     {drain{inPod: true, called: true, grace: time.Minute}, time.Second, drainTime - time.Second},
		"the work took longer":       {drain{inPod: true, called: true, grace: time.Minute}, drainTime + 1, 0},
		"a short grace period":       {drain{inPod: true, called: true, grace: time.Second}, 0, time.Second},
		"no grace period":            {drain{inPod: true, called: true, grace: -1}, 0, 0},
		"on a developer's machine":   {drain{called: true, grace: time.Minute}, 0, 0},
		"probes and metrics only":    {drain{inPod: true, grace: time.Minute}, 0, 0},
		"the work has failed":        {drain{inPod: true, called: true, failed: true, grace: time.Minute}, 0, 0},
		"nothing asks for the drain": {},
	} {
		if left := test.left(begun, begun.Add(test.since)); left != test.want {
			t.Errorf("%s: %s are left, want %s", name, left, test.want)
		}
	}
}

// After the stop of a program in a pod, requests are answered until the drain ends. Each
// answer closes its connection. The program is not ready. The lease is released at once.
func TestStopInAPod(t *testing.T) {
	for name, inPod := range map[string]bool{"in a pod": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			onLeasedStage(t, func(s *stage, server *playedLease) {
				t := s.T
				l, probes := newPipes(), newPipes()
				around := around{inPod: inPod, listen: func(_ context.Context, address string) (net.Listener, error) {
					return map[string]net.Listener{"main": l, "probes": probes}[address], nil
				}}
				ctx, stop := context.WithCancel(context.WithoutCancel(s.Context()))
				ended := make(chan error, 1)
				go func() {
					ended <- runIn(ctx, around, Options{
						Address: "main", ProbeAddress: "probes", Logger: slog.New(s.log),
						Lease: lease.Lease{Name: "one", Namespace: "default", Identity: "me"},
						Routes: []Route{{Pattern: "POST /route", Handler: http.HandlerFunc(
							func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })}},
					}, Controller[gizmo]{
						For:       s.gizmos,
						Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
					})
				}()
				s.sleep(10 * time.Second)
				if code, _ := probes.request(t, "GET /readyz HTTP/1.1", ""); code != http.StatusOK {
					t.Fatalf("the program is not ready: %d\n%s", code, s.log)
				}
				kept := l.dial(t)
				if post(t, kept) {
					t.Error("a connection is closed before the stop")
				}
				began := time.Now()
				stop()
				if inPod {
					for range 8 {
						s.sleep(drainTime / 10)
						if !post(t, l.dial(t)) {
							t.Error("an answer after the stop leaves its connection open")
						}
						if code, _ := probes.request(t, "GET /readyz HTTP/1.1", ""); code != http.StatusServiceUnavailable {
							t.Errorf("readiness after the stop: %d", code)
						}
						if code, _ := probes.request(t, "GET /healthz HTTP/1.1", ""); code != http.StatusOK {
							t.Errorf("health after the stop: %d", code)
						}
						if holder := server.holder(); holder != "" {
							t.Errorf("%q holds the lease", holder)
						}
					}
					if !post(t, kept) {
						t.Error("an older connection stays open")
					}
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				want := map[bool]time.Duration{true: drainTime}[inPod]
				if took := time.Since(began); took < want || took > want+time.Second {
					t.Errorf("Run returns after %s, want %s", took, want)
				}
			})
		})
	}
}

// post sends a request to the route, and reports whether the answer closes the connection.
func post(t *testing.T, conn net.Conn) (closes bool) {
	t.Helper()
	say(t, conn, "POST /route HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("a route answers %d", resp.StatusCode)
	}
	return resp.Close
}

// Over real connections: no request is refused between the stop and the end of the drain.
func TestStopOverLoopback(t *testing.T) {
	address := testport.Address(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	log := new(logs)
	route := Route{Pattern: "GET /route", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() {
		ended <- runIn(ctx, around{inPod: true, listen: listenTCP},
			Options{Address: address, Grace: 2 * time.Second, Logger: slog.New(log), Routes: []Route{route}})
	}()
	request := func(path string) int { code, _ := ask(t, http.MethodGet, "http://"+address+path, ""); return code }
	for until := time.Now().Add(patience); request("/readyz") != http.StatusOK; {
		if time.Now().After(until) {
			t.Fatalf("the program is not ready:\n%s", log)
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	answered := 0
	for len(ended) == 0 && request("/route") == http.StatusOK {
		answered++
	}
	if answered == 0 || log.count("requests are still answered") != 1 {
		t.Errorf("%d requests are answered after the stop:\n%s", answered, log)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A connection stays open for longer than clients keep it, which is up to 90 seconds.
func TestIdleConnectionsOutliveClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := serveHere(t, new(program))
		conn := l.dial(t)
		for range 3 {
			say(t, conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
			answered(t, conn)
			time.Sleep(2 * time.Minute)
		}
	})
}
