package metrics_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// A kube.Informer is a Store.
var _ metrics.Store = (*kube.Informer)(nil)

func TestRequests(t *testing.T) {
	m := metrics.New()
	get := kube.RequestInfo{Verb: "get", Method: "GET", Host: "10.0.0.1:443", Code: 200, Duration: 30 * time.Millisecond}
	m.Observe(get)
	m.Observe(get)
	m.Observe(kube.RequestInfo{Verb: "apply", Method: "PATCH", Host: "10.0.0.1:443", Duration: 3 * time.Second})

	expect(t, scrape(t, m.Handler()),
		`rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"} 2`,
		`rest_client_requests_total{code="<error>",host="10.0.0.1:443",method="PATCH"} 1`,
		`rest_client_request_duration_seconds_bucket{host="10.0.0.1:443",verb="GET",le="0.025"} 0`,
		`rest_client_request_duration_seconds_bucket{host="10.0.0.1:443",verb="GET",le="0.1"} 2`,
		`rest_client_request_duration_seconds_bucket{host="10.0.0.1:443",verb="PATCH",le="60"} 1`,
		`rest_client_request_duration_seconds_count{host="10.0.0.1:443",verb="PATCH"} 1`,
		`go_goroutines `,
		`process_start_time_seconds `,
		`process_resident_memory_bytes `,
	)
}

// TestRequestsOfAClient sends requests of a client to a server without objects.
func TestRequestsOfAClient(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	kubeconfig := t.TempDir() + "/kubeconfig"
	config := `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"` + srv.URL + `"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}

	m := metrics.New()
	client, err := kube.Config{Kubeconfig: kubeconfig, Observe: m.Observe}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.ViewOf[kube.Object](
		client, kube.Kind{GVK: kube.GVK{Group: "x.example", Version: "v1", Kind: "X"}},
	).In("a").
		Get(t.Context(), "b"); err == nil {
		t.Fatal("a server without anything has an X")
	}
	client.Close()
	host := strings.TrimPrefix(srv.URL, "http://")
	expect(t, scrape(t, m.Handler()),
		`rest_client_requests_total{code="404",host="`+host+`",method="GET"} `,
		`rest_client_request_duration_seconds_count{host="`+host+`",verb="GET"} `,
	)
}

func TestStores(t *testing.T) {
	m := metrics.New()
	full := &store{
		synced: true, stats: kube.StoreStats{Objects: 20000, Bytes: 61_000_000, LastHeard: time.Now().Add(-time.Hour)},
	}
	m.AddStore("pods", &store{synced: true})
	m.AddStore("pods", full) // replaces the first
	m.AddStore("books", &store{})
	stopped := &store{synced: true, done: make(chan struct{})}
	m.AddStore("gone", stopped)
	expect(t, scrape(t, m.Handler()), `pintle_store_synced{store="gone"} 1`)
	close(stopped.done)

	text := scrape(t, m.Handler())
	expect(t, text,
		`pintle_store_synced{store="books"} 0`,
		`pintle_store_synced{store="pods"} 1`,
		`pintle_store_objects{store="books"} 0`,
		`pintle_store_objects{store="pods"} 20000`,
		`pintle_store_bytes{store="pods"} 6.1e+07`,
		`pintle_store_last_event_age_seconds{store="pods"} 360`, // and a fraction
	)
	for _, absent := range []string{
		`pintle_store_last_event_age_seconds{store="books"}`, // the server has sent nothing yet
		`store="gone"`,
	} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is there", absent)
		}
	}
}

type store struct {
	stats  kube.StoreStats
	synced bool
	done   chan struct{}
}

func (s *store) Stats() kube.StoreStats { return s.stats }
func (s *store) Synced() bool           { return s.synced }
func (s *store) Done() <-chan struct{}  { return s.done }

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("scrape: %d %v\n%s", w.Code, err, body)
	}
	if ct := w.Header().Get("Content-Type"); !strings.HasPrefix(ct, "text/plain; version=0.0.4") {
		t.Errorf("content type %q", ct)
	}
	return string(body)
}

func expect(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no line begins with %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// While a handler writes metrics to slow clients, it answers other clients with 503. That
// also holds for a handler that is used alone.
func TestScrapesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		var scraping, most atomic.Int32
		m.Collect(func(*metrics.Scrape) {
			most.Store(max(most.Load(), scraping.Add(1)))
			time.Sleep(time.Second)
			scraping.Add(-1)
		})
		h := m.Handler()
		ask := func() int {
			page := httptest.NewRecorder()
			h.ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
			return page.Code
		}
		codes := make(chan int, 100)
		for range cap(codes) {
			go func() { codes <- ask() }()
		}
		time.Sleep(2 * time.Second)
		answered := 0
		for range cap(codes) {
			switch code := <-codes; code {
			case http.StatusOK:
				answered++
			case http.StatusServiceUnavailable:
			default:
				t.Errorf("one of many: %d", code)
			}
		}
		if answered != 4 || most.Load() != 4 {
			t.Errorf("%d were answered, %d at a time, want 4", answered, most.Load())
		}
		if code := ask(); code != http.StatusOK {
			t.Errorf("later: %d", code)
		}
	})
}
