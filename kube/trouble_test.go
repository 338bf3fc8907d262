package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logBook records a log.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines returns the lines since the last call.
func (l *logBook) lines() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSpace(l.buf.String())
	l.buf.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func (s *apiServer) loggingClient(t *testing.T) (*Client, *logBook) {
	t.Helper()
	book := new(logBook)
	c, err := Config{Rest: restTo(s), Logger: slog.New(slog.NewTextHandler(book, nil))}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return c, book
}

// TestMalformedEventsAreReportedRarely sends many events that cannot be read: at
// once, then one a second.
func TestMalformedEventsAreReportedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.jsonOnly = true
		var out *io.PipeWriter
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if !isWatch(r) {
				return nil, nil
			}
			resp, writer := piped(r, typeJSON)
			out = writer
			return resp, nil
		})
		c, log := s.loggingClient(t)
		feed := configMaps(c).Open(context.Background())
		defer feed.Close()
		synctest.Wait()
		if lines := log.lines(); len(lines) > 0 || feed.Trouble() != nil {
			t.Fatalf("at first: %q, %v", lines, feed.Trouble())
		}
		send := func(frame string) {
			t.Helper()
			if _, err := io.WriteString(out, frame); err != nil {
				t.Fatal(err)
			}
		}
		const bad = `{"type":"MODIFIED","object":{"metadata":{"name":"bad","namespace":"default","labels":7}}}`
		rv := 200
		good := func() {
			rv++
			send(fmt.Sprintf(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}`, rv))
		}
		for range 10_000 {
			send(bad)
		}
		lines := log.lines()
		if len(lines) != 1 || !strings.Contains(lines[0], "default/bad") || !strings.Contains(lines[0], "it is left out") {
			t.Fatalf("%d lines, the first %q", len(lines), lines[0])
		}
		var report *Trouble
		if err := feed.Trouble(); !errors.As(err, &report) || report.Tries != 10_000 ||
			!strings.Contains(err.Error(), "10000 were left out") {
			t.Errorf("trouble: %v", err)
		}
		for range 20 * 60 {
			time.Sleep(time.Second)
			send(bad)
			good()
		}
		if lines = log.lines(); len(lines) < 3 || len(lines) > 5 ||
			!strings.Contains(lines[len(lines)-1], "were left out since") {
			t.Errorf("%d lines in 20 minutes: %q", len(lines), lines)
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if feed.Trouble() == nil {
			t.Error("no trouble after less than a minute")
		}
		time.Sleep(time.Second)
		if err := feed.Trouble(); err != nil {
			t.Errorf("a minute after the last malformed event: %v", err)
		}
		good()
		if lines = log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "store recovered") ||
			!strings.Contains(lines[0], "tries=11200") {
			t.Errorf("at the end: %q", lines)
		}
	})
}

// TestMalformedEventIsOverWithALaterListing checks that one readable listing proves that
// all objects can be read.
func TestMalformedEventIsOverWithALaterListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.jsonOnly = true
		s.setIntercept(func(n int, r *http.Request) (*http.Response, error) {
			if n != 2 {
				return nil, nil
			}
			resp, out := piped(r, typeJSON)
			go func() {
				_, _ = io.WriteString(out, `{"type":"ADDED","object":{}}`)
				out.CloseWithError(io.ErrUnexpectedEOF)
			}()
			return resp, nil
		})
		feed := configMaps(s.client(t)).Open(context.Background())
		defer feed.Close()
		synctest.Wait()
		if feed.Trouble() == nil {
			t.Fatal("no trouble with an event that cannot be read")
		}
		s.forget()
		time.Sleep(10 * time.Second)
		if err := feed.Trouble(); err != nil {
			t.Errorf("after the next listing: %v", err)
		}
	})
}

// TestTroubleIsOfANamespace lets one of two namespaces recover.
func TestTroubleIsOfANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		var mu sync.Mutex
		down := map[string]bool{"a": true, "b": true}
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			for ns, is := range down {
				if is && strings.Contains(r.URL.Path, "/namespaces/"+ns+"/") {
					return nil, refused()
				}
			}
			return nil, nil
		})
		c := s.client(t)
		f := follow(t, configMaps(c).In("a", "b").Watch, noteOfConfigMap)
		feed := configMaps(c).In("a", "b").Open(context.Background())
		defer feed.Close()
		time.Sleep(time.Minute)
		set := func(ns string, is bool) {
			mu.Lock()
			down[ns] = is
			mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		set("a", false)
		if err := feed.Trouble(); !errors.Is(err, ErrUnreachable) {
			t.Errorf("one namespace has recovered, the other not: %v", err)
		}
		if n := f.recoveries(); n != 0 {
			t.Errorf("%d recoveries while a namespace is in trouble", n)
		}
		set("b", false)
		if err := feed.Trouble(); err != nil {
			t.Errorf("both have recovered: %v", err)
		}
		if n := f.recoveries(); n != 1 {
			t.Errorf("%d recoveries", n)
		}
		s.cutWatches()
		set("a", true)
		if err := feed.Trouble(); !errors.Is(err, ErrUnreachable) {
			t.Errorf("one namespace is in trouble again: %v", err)
		}
	})
}

// TestKindThatIsGoneIsATroubleForAsLong takes a kind away and brings it back.
func TestKindThatIsGoneIsATroubleForAsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		c, log := s.loggingClient(t)
		feed := widgets(c).Open(context.Background())
		defer feed.Close()
		time.Sleep(time.Minute)
		gone := func(int, *http.Request) (*http.Response, error) {
			return answer(404, "text/plain", []byte("404 page not found")), nil
		}
		for round := range 10 { // the kind also comes and goes too often to report every time
			s.setIntercept(gone)
			s.cutWatches()
			synctest.Wait()
			for range 120 {
				time.Sleep(time.Second)
				synctest.Wait()
				if err := feed.Trouble(); !errors.Is(err, ErrNotServed) {
					t.Fatalf("round %d: trouble with a kind that is gone: %v", round, err)
				}
			}
			s.setIntercept(nil)
			time.Sleep(maxDelay + lastsAfter)
			if err := feed.Trouble(); err != nil {
				t.Fatalf("round %d: trouble with a kind that is back: %v", round, err)
			}
		}
		if lines := log.lines(); len(lines) > 20 {
			t.Errorf("%d lines: %q", len(lines), lines)
		}
	})
}

// TestRecoveredIsAnEvent checks that a loop over a watch learns of the end of a trouble
// without an error.
func TestRecoveredIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		s.setIntercept(func(n int, _ *http.Request) (*http.Response, error) {
			if n <= 3 {
				return nil, refused()
			}
			return nil, nil
		})
		var lines []string
		for ev, err := range configMaps(s.client(t)).Watch(t.Context()) {
			switch {
			case err != nil:
				lines = append(lines, "error")
			case ev.Type.IsChange():
				lines = append(lines, string(ev.Type)+" "+ev.Object.Name)
			default:
				lines = append(lines, string(ev.Type)+ev.Object.Name)
			}
			if ev.Type == Synced {
				break
			}
		}
		wantLines(t, "events", lines, "error", "ADDED a", "RECOVERED", "SYNCED")
	})
}

// TestQuietWatchRecoversWithoutAnEvent makes watches end at once, and then makes one stay
// open without events.
func TestQuietWatchRecoversWithoutAnEvent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.bookmarks = time.Hour
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			if isWatch(r) && n < 8 {
				return answer(200, s.contentType(r), nil), nil
			}
			return nil, nil
		}
		f := watch(nil)
		time.Sleep(25 * time.Second)
		if n := f.recoveries(); n != 1 {
			t.Errorf("%d recoveries, requests %q", n, s.paths())
		}
		s.put(key("a"), "one")
		if lines := names(f.taken()); !slices.Contains(lines, "ADDED default/a") {
			t.Errorf("events: %q", lines)
		}
		time.Sleep(time.Minute)
		f.cancel() // it leaves no goroutine
	})
}

// TestLeavingTheLoopAtARecovery leaves the loop when a watch has lasted and told nothing.
func TestLeavingTheLoopAtARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.bookmarks = time.Hour
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			if isWatch(r) && n < 8 {
				return answer(200, s.contentType(r), nil), nil
			}
			return nil, nil
		}
		for ev := range configMaps(s.client(t)).Watch(t.Context()) {
			if ev.Type == Recovered {
				break
			}
		}
	})
}
