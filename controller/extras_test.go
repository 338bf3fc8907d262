package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

// Gone is called for every object that goes, until it returns no error. It is not called
// while the key is worked on. It is called before the reconcile of a new object of the
// name.
func TestGone(t *testing.T) {
	onStage(t, func(s *stage) {
		var mu sync.Mutex
		var told []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf(format, args...))
		}
		s.put("a", func(g *gizmo) { g.Spec.Size = 1 })
		s.put("slow", func(*gizmo) {})
		fails := 2
		s.start(Options{}, Controller[gizmo]{
			Backoff:   Backoff{Min: time.Second, Max: time.Second},
			Predicate: func(c kube.Change) bool { return c.Type != kube.Modified },
			Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
				if g.Name == "slow" {
					time.Sleep(10 * time.Second)
				}
				note("reconciled %s %d", g.Name, g.Spec.Size)
				return After(time.Hour), nil
			},
			Gone: func(_ context.Context, g *gizmo) error {
				if g.Name == "a" && fails > 0 {
					fails--
					return errBroken
				}
				note("gone %s %d", g.Name, g.Spec.Size)
				return nil
			},
		})
		s.put("a", func(g *gizmo) { g.Spec.Size = 2 }) // only the store sees it
		s.sleep(time.Second)
		s.delete("slow")
		s.delete("a")
		s.sleep(0)
		s.put("a", func(g *gizmo) { g.Spec.Size = 3 })
		s.sleep(time.Minute)
		s.delete("a")
		s.sleep(2 * time.Hour)
		of := func(name string) (lines []string) {
			for _, l := range told {
				if strings.Contains(l, " "+name+" ") {
					lines = append(lines, l)
				}
			}
			return lines
		}
		want := []string{"reconciled a 1", "gone a 2", "reconciled a 3", "gone a 3"}
		if got := of("a"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := of("slow"), []string{"reconciled slow 0", "gone slow 0"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := s.log.count("reconcile failed", "handle the object's removal", "default/a"); n != 2 {
			t.Errorf("%d failures are logged, want 2:\n%s", n, s.log)
		}
	})
}

// With any cause, an object is not reconciled sooner than MinInterval after the last
// time. No request in between is lost.
func TestMinInterval(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{
			MinInterval: 10 * time.Second,
			Backoff:     Backoff{Min: time.Millisecond, Max: time.Millisecond},
			Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
				switch g.Spec.Size {
				case 5:
					return After(0), nil
				case 6:
					return Done, errBroken
				}
				return Done, nil
			},
		})
		for i := range 5 {
			s.put("g", func(g *gizmo) { g.Spec.Size = i + 1 })
			s.sleep(7 * time.Second)
		}
		s.sleep(time.Minute)
		s.put("g", func(g *gizmo) { g.Spec.Size = 6 })
		s.sleep(time.Minute)
		runs := s.ran("g")
		for i := 1; i < len(runs); i++ {
			if d := runs[i].at - runs[i-1].at; d < 10*time.Second {
				t.Errorf("reconcile %d comes %s after the one before", i, d)
			}
		}
		if len(runs) < 12 || len(runs) > 17 {
			t.Errorf("%d reconciles", len(runs))
		}
	})
}

// The controller chooses the priority, by source and by change, and the metrics count by
// it.
func TestPriority(t *testing.T) {
	onStage(t, func(s *stage) {
		keys := make(chan kube.Key)
		for i := range 60 {
			s.put(fmt.Sprintf("g%02d", i), func(g *gizmo) { g.Spec.Size = i })
		}
		counts := metrics.New()
		s.start(Options{Metrics: counts}, Controller[gizmo]{
			Concurrency: 1, Watches: []Source{Channel("doorbell", keys)},
			Priority: func(c Cause) Priority {
				switch {
				case c.Reason == Triggered && c.Source == "doorbell":
					return High
				case c.Reason == Listed && c.Change.Key.Name == "g59":
					return Normal
				case c.Reason == Changed:
					return Low
				}
				return Default
			},
			Reconcile: func(context.Context, *gizmo) (Action, error) { time.Sleep(time.Second); return Done, nil },
		})
		s.sleep(1500 * time.Millisecond) // the second one is running
		s.put("fresh", func(*gizmo) {})
		var rung []string // the objects that wait, in any order of their listing
		for i := 0; len(rung) < 3; i++ {
			if name := fmt.Sprintf("g%02d", i); len(s.ran(name)) == 0 {
				rung = append(rung, name)
				keys <- named(name)
			}
		}
		s.sleep(0)
		page := httptest.NewRecorder()
		counts.Handler().ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		for _, want := range []string{`priority="100"} 3`, `priority="0"} `, `priority="-100"} 56`} {
			if !strings.Contains(page.Body.String(), `workqueue_depth{controller="gizmo",name="gizmo",`+want) {
				t.Errorf("the metrics lack %s:\n%s", want, page.Body)
			}
		}
		s.sleep(2 * time.Minute)
		var order []string
		for _, r := range s.ran("") {
			order = append(order, r.name)
		}
		if order[0] != "g59" && order[1] != "g59" {
			t.Errorf("the listed object of a normal priority is reconciled at place %d", slices.Index(order, "g59"))
		}
		if got := order[2:5]; !slices.Equal(got, rung) {
			t.Errorf("after the bell rang %v were reconciled, want %v", got, rung)
		}
		if last := order[len(order)-1]; last != "fresh" || len(order) != 61 {
			t.Errorf("the change of a low priority is not the last of %d: %v", len(order), order)
		}
	})
}

// The requests of a reconcile have spans below its own.
func TestRequestSpans(t *testing.T) {
	onStage(t, func(s *stage) {
		type parent struct{}
		var mu sync.Mutex
		var spans []string
		trace := func(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
			within, _ := ctx.Value(parent{}).(string)
			return context.WithValue(ctx, parent{}, name), func(err error, more ...slog.Attr) {
				mu.Lock()
				defer mu.Unlock()
				spans = append(spans, fmt.Sprint(within, " / ", name, " ", append(attrs[:len(attrs):len(attrs)], more...), " ",
					err))
			}
		}
		s.put("g", func(*gizmo) {})
		s.start(Options{Trace: trace}, Controller[gizmo]{
			Predicate: kube.Change.NewGeneration,
			Reconcile: func(ctx context.Context, g *gizmo) (Action, error) {
				if _, err := s.gizmos.Get(ctx, "missing"); err == nil {
					t.Error("it is there")
				}
				g.Status.Seen = 1
				return Done, s.gizmos.Status().Ensure(ctx, g)
			},
		})
		s.sleep(time.Second)
		want := []string{
			"reconcile gizmo / get Gizmo [verb=get method=GET kind=Gizmo namespace=default name=missing subresource= code=404] the server answered with status 404",
			"reconcile gizmo / apply Gizmo [verb=apply method=PATCH kind=Gizmo namespace=default name=g subresource=status code=200] <nil>",
		}
		for _, w := range want {
			if !slices.Contains(spans, w) {
				t.Errorf("there is no span %q among %q", w, spans)
			}
		}
		if len(spans) != 3 {
			t.Errorf("%d spans", len(spans))
		}
	})
}

// A look for an object finds it although it has left the selectors and the namespaces of the
// controller's handle: only an object that does not exist is gone.
func TestLookUpBeyondTheSelectors(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("here", func(*gizmo) {})
		narrow := s.gizmos.Labeled("app=web").Fielded("metadata.name=other")
		if is, err := lookUp(context.Background(), narrow, named("here")); err != nil || is == nil || is.Name != "here" {
			t.Errorf("an object outside the selectors: %v, %v", is, err)
		}
		if is, err := lookUp(context.Background(), narrow, named("gone")); err != nil || is != nil {
			t.Errorf("an object that does not exist: %v, %v", is, err)
		}
	})
}

// Stores that a controller only reads are filled before its first reconcile, shared and
// counted. Their changes reconcile nothing.
func TestReads(t *testing.T) {
	onStage(t, func(s *stage) {
		read := s.gizmos.Labeled("read")
		s.arrive = func(r *http.Request) {
			if r.URL.Query().Get("labelSelector") != "" && r.URL.Query().Get("watch") == "" {
				time.Sleep(30 * time.Second) // a slow list
			}
		}
		s.put("g", func(g *gizmo) { g.Labels = map[string]string{"read": ""} })
		counts := metrics.New()
		c := Controller[gizmo]{Name: "one", For: s.gizmos, Reads: []kube.AnyHandle{read},
			Predicate: func(c kube.Change) bool {
				return c.Type == kube.Added
			}}
		begun := time.Now()
		var first time.Duration
		var runs int
		c.Reconcile = func(ctx context.Context, g *gizmo) (Action, error) {
			if runs++; runs == 1 {
				first = time.Since(begun)
			}
			_, err := kube.Get[gizmo](ctx, read.Open(ctx), named("g"))
			return Done, err
		}
		s.run(Options{Metrics: counts}, c)
		s.sleep(time.Minute)
		if first < 30*time.Second || runs != 1 {
			t.Errorf("%d reconciles, the first after %s", runs, first)
		}
		for range 3 {
			s.put("g", func(g *gizmo) { g.Spec.Size++ })
			s.sleep(time.Second)
		}
		if runs != 1 {
			t.Errorf("%d reconciles after changes of objects that are only read", runs)
		}
		page := httptest.NewRecorder()
		counts.Handler().ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		if want := `store="gizmo.example.com in default read"`; !strings.Contains(page.Body.String(), want) {
			t.Errorf("the metrics lack %s:\n%s", want, page.Body)
		}
		if n := s.count("GET " + playedPath); n > 5 {
			t.Errorf("%d lists and watches", n)
		}
	})
}
