package kube_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// answerless starts a server that takes requests and says so on the channel. It answers
// none of them until the client gives up.
func answerless(t *testing.T) (*rest.Config, chan struct{}) {
	t.Helper()
	asked := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(server.Certificate())}},
		asked
}

// Close ends the client's requests and leaves nothing behind.
func TestClose(t *testing.T) {
	config, asked := answerless(t)
	client := got(kube.Config{Rest: config}.Connect())(t)
	maps := kube.For[corev1.ConfigMap](client).In("a")
	failed := make(chan error, 1)
	go func() { failed <- maps.Delete(soon(t), "x") }()
	<-asked
	client.Close()
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a request under way: %v", err)
	}
	if _, err := maps.Get(soon(t), "x"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a later request: %v", err)
	}
	client.Close()
}

// Close also closes a connection whose request was given up a moment before.
func TestCloseAfterGivingUp(t *testing.T) {
	config, asked := answerless(t)
	before := goleak.IgnoreCurrent()
	for range 20 {
		client := got(kube.Config{Rest: config}.Connect())(t)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := kube.For[corev1.ConfigMap](client).In("a").Get(ctx, "x")
			failed <- err
		}()
		<-asked
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("a request that was given up: %v", err)
		}
		client.Close()
	}
	goleak.VerifyNone(t, before) // VerifyNone waits a moment for goroutines that are about to end
}

// late hands over a connection after it was asked for.
type late struct {
	asked, release chan struct{}
	closed         chan struct{}
}

func (l *late) dial(context.Context, string, string) (net.Conn, error) {
	close(l.asked)
	<-l.release
	return lateConn{nil, l}, nil
}

type lateConn struct {
	net.Conn
	of *late
}

func (c lateConn) Close() error {
	close(c.of.closed)
	return nil
}

// Close also closes a connection that is still being made.
func TestCloseWhileDialling(t *testing.T) {
	l := &late{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	client := got(kube.Config{Rest: &rest.Config{Host: "http://127.0.0.1:1", Dial: l.dial}}.Connect())(t)
	failed := make(chan error, 1)
	go func() { failed <- kube.For[corev1.ConfigMap](client).In("a").Delete(soon(t), "x") }()
	<-l.asked
	client.Close()
	close(l.release)
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	select {
	case <-l.closed:
	case <-time.After(time.Minute):
		t.Error("the connection is left")
	}
}
