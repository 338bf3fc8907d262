package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// reviewer plays an API server. It knows the tokens that begin with "good", and allows
// /metrics and everything below /open/.
type reviewer struct {
	tokens, accesses atomic.Int32
	takes            time.Duration
	// forgets makes it know no token any more.
	forgets atomic.Bool
	// down makes it answer nothing.
	down atomic.Bool
}

func (s *reviewer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return nil, fmt.Errorf("%s %s", r.Method, r.URL)
	}
	if s.down.Load() {
		return nil, errors.New("connection refused by 10.96.0.1")
	}
	select {
	case <-time.After(s.takes):
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	var body struct {
		Spec struct {
			Token       string
			NonResource struct{ Path string } `json:"nonResourceAttributes"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	status := map[string]any{}
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		s.tokens.Add(1)
		status["authenticated"] = strings.HasPrefix(body.Spec.Token, "good") && !s.forgets.Load()
	} else {
		s.accesses.Add(1)
		path := body.Spec.NonResource.Path
		status["allowed"] = path == "/metrics" || strings.HasPrefix(path, "/open/")
	}
	text, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusCreated, Header: header,
		Body: io.NopCloser(strings.NewReader(string(text)))}, nil
}

// guarded is a handler behind an authorizer.
type guarded struct {
	*authorizer
	http.Handler
}

func newGuarded(t *testing.T, s *reviewer) guarded {
	t.Helper()
	client, err := kube.Config{Rest: &rest.Config{Host: "http://server.test", Transport: s}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	a := newAuthorizer(client, slog.New(slog.DiscardHandler))
	return guarded{a, a.guard(t.Context(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}
}

func (g guarded) get(ctx context.Context, client, token, path string) int {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	r.RemoteAddr = client + ":1234"
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w.Code
}

// A client that makes tokens up can make the program ask the cluster only so often and
// take only so much memory. It can keep out neither a known scraper nor one that comes
// later.
func TestInventedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s reviewer
		g := newGuarded(t, &s)
		const seconds = 300
		if code := g.get(t.Context(), "10.0.0.1", "good", "/metrics"); code != http.StatusOK {
			t.Fatalf("a scraper: %d", code)
		}
		refused := 0
		for second := range seconds {
			for i := range 100 {
				switch code := g.get(t.Context(), "10.6.6.6", fmt.Sprint("bad", second, i), "/metrics"); code {
				case http.StatusTooManyRequests:
					refused++
				case http.StatusUnauthorized:
				default:
					t.Fatalf("a token that was made up: %d", code)
				}
			}
			if code := g.get(t.Context(), "10.6.6.6", "good", "/metrics"); second > 60 && code != http.StatusOK {
				t.Fatalf("a scraper that shares the address: %d", code)
			}
			if code := g.get(t.Context(), "10.0.0.1", "good", "/metrics"); code != http.StatusOK {
				t.Fatalf("a scraper that is known: %d", code)
			}
			if code := g.get(t.Context(), "10.0.0.2", fmt.Sprint("good", second/100), "/metrics"); code != http.StatusOK {
				t.Fatalf("a scraper with another token: %d", code)
			}
			time.Sleep(time.Second)
		}
		if n, most := int(s.tokens.Load()), addressBurst+addressReviewsASecond*seconds+20; n > most {
			t.Errorf("the cluster was asked %d times, at most %d are wanted", n, most)
		}
		if refused < 90*seconds {
			t.Errorf("%d were refused", refused)
		}
	})
}

// The same holds for a client that has a token and makes paths up, from many addresses.
func TestInventedPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s reviewer
		g := newGuarded(t, &s)
		for i := range 50_000 {
			g.get(t.Context(), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "good",
				fmt.Sprint([]string{"/shut/", "/open/"}[i%2], i))
			time.Sleep(10 * time.Millisecond)
		}
		if n, most := int(s.accesses.Load()), reviewBurst+reviewsASecond*500; n > most {
			t.Errorf("the cluster was asked %d times, at most %d are wanted", n, most)
		}
		if len(g.allowed) > answersMax || len(g.denied) > answersMax || len(g.rate.of) > addressesMax || len(g.asking) > 0 {
			t.Errorf("%d allowed, %d denied, %d addresses, %d being asked", len(g.allowed), len(g.denied), len(g.rate.of),
				len(g.asking))
		}
	})
}

// Of many requests with one token, one asks the cluster. The answer counts for all, even
// if that request's own client has gone.
func TestOneReviewInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reviewer{takes: time.Second}
		g := newGuarded(t, &s)
		var requests sync.WaitGroup
		codes := make([]int, 50)
		for i := range codes {
			requests.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i == 0 {
					time.AfterFunc(time.Second/2, cancel)
				} else {
					time.Sleep(time.Second / 4)
				}
				codes[i] = g.get(ctx, "10.0.0.1", "good", "/metrics")
			})
		}
		requests.Wait()
		if n := s.tokens.Load(); n != 1 {
			t.Errorf("the cluster was asked %d times", n)
		}
		for i, code := range codes {
			if code != http.StatusOK {
				t.Errorf("request %d: %d", i, code)
			}
		}
	})
}

// A request that was allowed is not allowed for ever.
func TestTokenForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s reviewer
		g := newGuarded(t, &s)
		if code := g.get(t.Context(), "10.0.0.1", "good", "/metrics"); code != http.StatusOK {
			t.Errorf("first: %d", code)
		}
		s.forgets.Store(true)
		time.Sleep(allowedFor + time.Second)
		for range 3 {
			if code := g.get(t.Context(), "10.0.0.1", "good", "/metrics"); code != http.StatusUnauthorized {
				t.Errorf("then: %d", code)
			}
		}
		if n := s.tokens.Load(); n != 2 {
			t.Errorf("the cluster was asked %d times", n)
		}
	})
}

// A client does not learn why the cluster cannot be asked. The log has the reason once.
func TestClusterCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s reviewer
		g := newGuarded(t, &s)
		lines := new(logs)
		g.log = slog.New(lines)
		s.down.Store(true)
		for i := range 5 {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
			r.Header.Set("Authorization", fmt.Sprint("Bearer good", i))
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
				t.Errorf("the answer is %d, %v", w.Code, w.Header())
			}
			if text := w.Body.String(); strings.Contains(text, "refused") || strings.Contains(text, "server.test") {
				t.Errorf("the answer says %q", text)
			}
		}
		s.down.Store(false)
		time.Sleep(time.Minute)
		if code := g.get(t.Context(), "10.0.0.1", "good", "/metrics"); code != http.StatusOK {
			t.Errorf("then: %d", code)
		}
		if lines.count("cannot review tokens", "connection refused by 10.96.0.1") != 1 || lines.count("succeed again") != 1 {
			t.Errorf("the log:\n%s", lines)
		}
	})
}
