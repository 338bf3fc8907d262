package controller

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// throughItself answers lists as the API server does while the conversion of the objects'
// stored version fails: with an error, until the program that converts them is ready.
type throughItself struct {
	*played
	reached *atomic.Bool
}

func (s throughItself) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/gizmos") || s.reached.Load() {
		return s.played.RoundTrip(r)
	}
	const failed = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"reason":"InternalError",` +
		`"message":"conversion webhook for example.com/v1, Kind=Gizmo failed: no endpoints available"}`
	return &http.Response{
		StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(failed)), Request: r,
	}, nil
}

// A program that converts a kind gets ready before the store of that kind is filled, since the
// server fills the store only through a program that is ready. For another kind it is not ready.
func TestReadyToConvert(t *testing.T) {
	for name, test := range map[string]struct {
		converts func(kube.GVK) []kube.GVK
		code     int
		says     string
	}{
		"its own kind": {func(k kube.GVK) []kube.GVK { return []kube.GVK{k} }, http.StatusOK, "converts this kind itself"},
		"in another version": {func(k kube.GVK) []kube.GVK {
			k.Version = "v7"
			return []kube.GVK{k}
		}, http.StatusOK, "converts this kind itself"},
		"another kind": {func(k kube.GVK) []kube.GVK {
			k.Kind = "Other"
			return []kube.GVK{k}
		}, http.StatusServiceUnavailable, "no endpoints"},
		"none": {func(kube.GVK) []kube.GVK { return nil }, http.StatusServiceUnavailable, "no endpoints"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newPlayed()
				var reached atomic.Bool
				s := newStage(t, server, throughItself{server, &reached})
				s.put("a", func(*gizmo) {})
				l := newPipes()
				around := around{listen: func(context.Context, string) (net.Listener, error) { return l, nil }}
				ctx, stop := context.WithCancel(t.Context())
				ended, reconciled := make(chan error, 1), make(chan struct{}, 1)
				go func() {
					ended <- runIn(ctx, around, Options{
						Address: "main", Logger: slog.New(s.log), Converts: test.converts(s.gizmos.Kind().GVK),
					}, Controller[gizmo]{For: s.gizmos, Reconcile: func(context.Context, *gizmo) (Action, error) {
						reconciled <- struct{}{}
						return Done, nil
					}})
				}()
				s.sleep(time.Minute)
				code, says := l.request(t, "GET /readyz HTTP/1.1", "")
				if code != test.code || !strings.Contains(says, test.says) {
					t.Errorf("/readyz answers %d %q", code, says)
				}
				reached.Store(true)
				<-reconciled
				code, says = l.request(t, "GET /readyz HTTP/1.1", "")
				if code != http.StatusOK || !strings.Contains(says, ": ok") {
					t.Errorf("with a filled store, /readyz answers %d %q", code, says)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
