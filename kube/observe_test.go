package kube

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
)

// An observer may stop itself, add another, make a request and panic.
func TestObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		var log bytes.Buffer
		broken := func(RequestInfo) { panic("observer is broken") }
		c, err := Config{Rest: restTo(s), Logger: slog.New(slog.NewTextHandler(&log, nil)), Observe: broken}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		cms := For[corev1.ConfigMap](c).In("default")
		get := func() {
			t.Helper()
			if _, err := cms.Get(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		}
		var once, added, asked int
		var stop, stopAsking func()
		stop = c.OnRequest(func(RequestInfo) {
			once++
			stop()
			c.OnRequest(func(RequestInfo) { added++ })
		})
		stopAsking = c.OnRequest(func(RequestInfo) {
			asked++
			stopAsking()
			get()
		})
		get()
		get()
		if once != 1 || asked != 1 || added != 2 {
			t.Errorf("one that stops itself was called %d times, one that asks %d, one that was added %d", once, asked, added)
		}
		if n := strings.Count(log.String(), "observer is broken"); n == 0 || n > 2 {
			t.Errorf("%d lines: %s", n, &log)
		}
	})
}
