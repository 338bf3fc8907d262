package controller_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/controller"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// TestHTTPS registers nodes with another port with TLS, as upstream's storage_controller/src/node.rs allows it: see
// registration_match and need_update. A program that shall call all with TLS does not start while one has no such
// port: see from_persistent there, and from_persistence of safekeeper.rs.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Config{Quiet: true})
	l.StartController(t)
	sc := upstream.NewController(upstream.Config{URL: l.URL(t, "controller"), HTTP: l.HTTP, Sign: l.Key.Sign})
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	starts := func(pageservers, safekeepers bool, refusal string) {
		t.Helper()
		c, err := controller.Open(t.Context(), controller.Config{
			DatabaseURL: l.Postgres.URL, DatabaseWait: 30 * time.Second, PageserversByTLS: pageservers, SafekeepersByTLS: safekeepers,
			HeartbeatEvery: time.Hour, SettleEvery: time.Hour,
		}, 5*time.Second)
		if err == nil {
			over, cancel := context.WithCancel(t.Context())
			cancel()
			err = c.Run(over)
		}
		if refusal == "" && err != nil || refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)) {
			t.Errorf("it says %v instead of %q", err, refusal)
		}
	}
	port, other := 9899, 9898
	for _, https := range []*int{nil, &port, &other, nil} {
		ok(sc.RegisterNode(t.Context(), upstream.NodeRegistration{
			ID: 1, PGHost: "127.0.0.1", PGPort: 6400, HTTPHost: "127.0.0.1", HTTPPort: 9898, HTTPSPort: https, Zone: "a",
		}))
		n, err := sc.Node(t.Context(), 1)
		ok(err)
		if (n.HTTPSPort == nil) != (https == nil) || https != nil && *n.HTTPSPort != *https {
			t.Errorf("the pageserver is %+v", n)
		}
		if https == nil {
			starts(true, false, "cannot load node 1 from persistent: https is enabled")
		} else {
			starts(true, false, "")
		}
	}
	keeper := upstream.Registration{ID: 1, Region: "neon", Version: 1, Host: "127.0.0.1", Port: 5454, HTTPPort: 7676, Zone: "a"}
	ok(sc.Register(t.Context(), keeper))
	ok(sc.SetSafekeeperPolicy(t.Context(), 1, upstream.SafekeeperDecommissioned))
	starts(false, true, "cannot load safekeeper 1 from persistence: https is enabled")
	keeper.HTTPSPort = &port
	ok(sc.Register(t.Context(), keeper))
	starts(false, true, "")
	if is, err := sc.Registration(t.Context(), 1); err != nil || is.Policy != upstream.SafekeeperDecommissioned {
		t.Errorf("the safekeeper is %+v, %v", is, err)
	}
}
