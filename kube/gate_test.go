package kube_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/internal/gate"
	"github.com/pintle-go/pintle/kube"
)

// gatekeeper plays a server and a gate in front of it.
type gatekeeper struct {
	closed   atomic.Bool
	asked    atomic.Int32
	sent     atomic.Int32 // requests that left the process whole
	dialling func()       // called between the request's start and its body
	answer   func(*http.Request) (*http.Response, error)
}

var errClosed = errors.New("the gate is closed")

func (g *gatekeeper) open() error {
	g.asked.Add(1)
	if g.closed.Load() {
		return errClosed
	}
	return nil
}

func (g *gatekeeper) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.dialling != nil {
		g.dialling()
	}
	if r.Body != nil {
		if _, err := io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	g.sent.Add(1)
	if g.answer != nil {
		return g.answer(r)
	}
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"ns","uid":"u","resourceVersion":"1"}}`
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestGate(t *testing.T) {
	until, lose := context.WithCancelCause(context.Background())
	defer lose(nil)
	begin := func(t *testing.T) (*gatekeeper, context.Context, kube.Resource[corev1.ConfigMap], *corev1.ConfigMap) {
		g := new(gatekeeper)
		client, err := kube.Config{Rest: &rest.Config{Host: "http://server", Transport: g}}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		o := new(corev1.ConfigMap)
		o.Name = "x"
		ctx, stop := gate.With(t.Context(), until, g.open)
		t.Cleanup(stop)
		return g, ctx, kube.For[corev1.ConfigMap](client).In("ns"), o
	}

	t.Run("open", func(t *testing.T) {
		g, ctx, maps, o := begin(t)
		if _, err := maps.Create(ctx, o); err != nil || g.sent.Load() != 1 || g.asked.Load() < 2 {
			t.Errorf("%v, sent %d, asked %d times", err, g.sent.Load(), g.asked.Load())
		}
	})
	t.Run("closed", func(t *testing.T) {
		g, ctx, maps, o := begin(t)
		g.closed.Store(true)
		second, stop := gate.With(ctx, until, func() error { return nil })
		defer stop()
		for name, write := range map[string]func(context.Context) error{
			"create": func(ctx context.Context) error { _, err := maps.Create(ctx, o); return err },
			"apply":  func(ctx context.Context) error { _, err := maps.Apply(ctx, o); return err },
			"delete": func(ctx context.Context) error { return maps.Delete(ctx, "x") },
		} {
			for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx), second} {
				if err := write(ctx); !errors.Is(err, errClosed) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if g.sent.Load() != 0 {
			t.Errorf("%d requests were sent", g.sent.Load())
		}
		if _, err := maps.Get(ctx, "x"); err != nil {
			t.Errorf("reading: %v", err)
		}
	})
	t.Run("closes while the connection is made", func(t *testing.T) {
		g, ctx, maps, o := begin(t)
		g.dialling = func() { g.closed.Store(true) }
		if _, err := maps.Create(ctx, o); !errors.Is(err, errClosed) || g.sent.Load() != 0 {
			t.Errorf("%v, sent %d", err, g.sent.Load())
		}
	})
	t.Run("closes before a repetition", func(t *testing.T) {
		g, ctx, maps, o := begin(t)
		g.answer = func(r *http.Request) (*http.Response, error) {
			g.closed.Store(true)
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"0"}}, Body: http.NoBody, Request: r}, nil
		}
		if _, err := maps.Create(ctx, o); !errors.Is(err, errClosed) || g.sent.Load() != 1 {
			t.Errorf("%v, sent %d", err, g.sent.Load())
		}
	})
	t.Run("a body that is sent again asks again", func(t *testing.T) {
		g, ctx, maps, o := begin(t)
		g.answer = func(r *http.Request) (*http.Response, error) {
			g.closed.Store(true)
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			_, err = io.ReadAll(body)
			return nil, err
		}
		if _, err := maps.Create(ctx, o); !errors.Is(err, errClosed) {
			t.Error(err)
		}
	})
	t.Run("what is under way ends", func(t *testing.T) {
		g, ctx, maps, o := begin(t)
		lost := errors.New("lost")
		g.answer = func(r *http.Request) (*http.Response, error) {
			time.AfterFunc(10*time.Millisecond, func() { lose(lost) })
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		if _, err := maps.Create(context.WithoutCancel(ctx), o); !errors.Is(err, lost) {
			t.Error(err)
		}
	})
}
