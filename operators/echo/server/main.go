// Command server answers every HTTP request with the request itself, and with the name of
// the pod that answers. It listens on port 8080, or on the port in the environment
// variable PORT.
//
// On SIGTERM it answers the requests in flight and ends.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

const (
	// longest is the number of bytes of a body that are sent back.
	longest = 1 << 20
	// drainTime is the longest time that requests in flight may take when the server
	// stops. It is less than a pod's 30 s.
	drainTime = 20 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the program at once
	name, err := os.Hostname()
	if err == nil {
		err = listen(ctx, ":"+cmp.Or(os.Getenv("PORT"), "8080"), echo(name))
	}
	if err != nil {
		slog.Error("the echo server failed", "error", err)
		os.Exit(1)
	}
}

func listen(ctx context.Context, addr string, h http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	return run(ctx, l, h)
}

func run(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	slog.Info("echoing", "address", l.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err := srv.Shutdown(draining)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve HTTP: %w", served))
	}
	return err
}

// echo answers in the name of a pod.
func echo(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longest))
		if err != nil {
			http.Error(
				w, fmt.Sprintf("the server echoes a body of up to %d bytes: %v", longest, err), http.StatusRequestEntityTooLarge,
			)
			return
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "Request served by %s\n\n%s %s %s\n\nHost: %s\n", name, r.Method, r.URL.RequestURI(), r.Proto, r.Host)
		for _, key := range slices.Sorted(maps.Keys(r.Header)) {
			for _, value := range r.Header[key] {
				fmt.Fprintf(&b, "%s: %s\n", key, value)
			}
		}
		fmt.Fprintf(&b, "\n%s", body)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(b.Bytes()) // the client may have disconnected
	})
}
