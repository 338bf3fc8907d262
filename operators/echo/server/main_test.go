package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// TestEcho sends requests to the running server, and ends it during a request.
func TestEcho(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	entered, leave := make(chan struct{}), make(chan struct{})
	echoing := echo("pod")
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-leave
		}
		echoing.ServeHTTP(w, r)
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, l, h) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

	ask := func(path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		req.Header.Set("X-Said", "before")
		resp, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, string(text)
	}
	code, text := ask("/some/path?q=1", "hello")
	for _, want := range []string{"Request served by pod\n", "POST /some/path?q=1 HTTP/1.1\n", "Host: " + addr + "\n", "X-Said: before\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("status %d, and %q is not in\n%s", code, want, text)
		}
	}
	if !strings.HasSuffix(text, "\n\nhello") {
		t.Errorf("the body is not at the end of\n%s", text)
	}
	if code, text := ask("/", strings.Repeat("x", longest+1)); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large: %d %s", code, text)
	}

	answered := make(chan int, 1)
	go func() {
		code, _ := ask("/slow", "")
		answered <- code
	}()
	<-entered
	stop()
	time.Sleep(50 * time.Millisecond) // it may not end
	select {
	case err := <-ended:
		t.Fatalf("it has ended before the request that was under way: %v", err)
	default:
	}
	close(leave)
	if code := <-answered; code != http.StatusOK {
		t.Errorf("the request that was under way: status %d", code)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
