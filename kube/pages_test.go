package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// isList reports whether a request is for a list of ConfigMaps.
func isList(r *http.Request) bool {
	return r.Method == http.MethodGet && !isWatch(r) && strings.HasSuffix(r.URL.Path, "/configmaps")
}

// aPage is a page with an object of a name, or with none.
func aPage(name, next string) *http.Response {
	items := []any{}
	if name != "" {
		items = append(items, map[string]any{"metadata": map[string]any{
			"namespace": "default", "name": name, "uid": "uid of " + name, "resourceVersion": "50"}})
	}
	return jsonAnswer(http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ConfigMapList",
		"metadata": map[string]any{"resourceVersion": "100", "continue": next}, "items": items})
}

// tooLargeUnpaged refuses lists without a limit.
func tooLargeUnpaged() *http.Response {
	return status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "the list takes too long")
}

// onlyPages serves a number of pages of one object each. Its refuse may answer in its place.
func onlyPages(pages int, refuse func(page int, r *http.Request) (*http.Response, error)) func(
	int, *http.Request) (*http.Response, error) {
	return func(_ int, r *http.Request) (*http.Response, error) {
		q := r.URL.Query()
		switch {
		case !isList(r):
			return nil, nil
		case q.Get("limit") == "":
			return tooLargeUnpaged(), nil
		}
		page, _ := strconv.Atoi(q.Get("continue"))
		if resp, err := refuse(page, r); resp != nil || err != nil {
			return resp, err
		}
		next := ""
		if page < pages-1 {
			next = strconv.Itoa(page + 1)
		}
		return aPage(fmt.Sprint("o", page), next), nil
	}
}

func throttled(seconds int) *http.Response {
	resp := status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests")
	resp.Header.Set("Retry-After", strconv.Itoa(seconds))
	return resp
}

// refusals are the ways in which a page may not come although the next try may work.
func refusals() map[string]func(r *http.Request) (*http.Response, error) {
	code := func(code int, reason metav1.StatusReason) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return status(code, reason, "not now"), nil }
	}
	return map[string]func(*http.Request) (*http.Response, error){
		"429 with Retry-After": func(*http.Request) (*http.Response, error) { return throttled(1), nil },
		"429":                  code(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests),
		"500":                  code(http.StatusInternalServerError, metav1.StatusReasonInternalError),
		"502":                  code(http.StatusBadGateway, ""),
		"503":                  code(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
		"504":                  code(http.StatusGatewayTimeout, metav1.StatusReasonTimeout),
		"reset":                func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"break inside the page": func(r *http.Request) (*http.Response, error) {
			resp := aPage("o"+r.URL.Query().Get("continue"), "")
			body, err := io.ReadAll(resp.Body)
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(string(body[:len(body)-2])),
				brokenReader{}))
			return resp, err
		},
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

func TestAListGoesOnFromThePageThatWasRefused(t *testing.T) {
	for name, refusal := range refusals() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pages = 40
				s := newAPIServer()
				var begun, asked, refused atomic.Int64
				s.setIntercept(onlyPages(pages, func(page int, r *http.Request) (*http.Response, error) {
					if page == 0 {
						begun.Add(1)
						return nil, nil
					}
					if asked.Add(1)%10 != 0 {
						return nil, nil
					}
					refused.Add(1)
					return refusal(r)
				}))
				store, _ := startStore(t, configMaps(s.client(t)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := store.Sync(ctx); err != nil {
					t.Fatalf("the store does not sync: %v", err)
				}
				if n := store.Stats().Objects; n != pages {
					t.Errorf("%d objects, want %d", n, pages)
				}
				if begun.Load() != 1 || refused.Load() == 0 {
					t.Errorf("the list began %d times, want once; %d pages were refused", begun.Load(), refused.Load())
				}
			})
		})
	}
}

func TestARefusedPageIsAskedForAgainWhenTheServerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		var at []time.Time
		s.setIntercept(onlyPages(3, func(page int, _ *http.Request) (*http.Response, error) {
			if page != 1 {
				return nil, nil
			}
			if at = append(at, time.Now()); len(at) == 1 {
				return throttled(20), nil
			}
			return nil, nil
		}))
		store, _ := startStore(t, configMaps(s.client(t)))
		if err := store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(at) != 2 || at[1].Sub(at[0]) < 20*time.Second || at[1].Sub(at[0]) > 31*time.Second {
			t.Errorf("the page was asked for at %v", at)
		}
	})
}

func TestAPageThatIsAlwaysRefusedFailsTheListAndIsATrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		var begun, refused, before atomic.Int64
		s.setIntercept(onlyPages(3, func(page int, _ *http.Request) (*http.Response, error) {
			switch page {
			case 0:
				if begun.Add(1) == 4 {
					before.Store(refused.Load())
				}
			case 2:
				refused.Add(1)
				return throttled(1), nil
			}
			return nil, nil
		}))
		store, _ := startStore(t, configMaps(s.client(t)))
		for begun.Load() < 4 {
			time.Sleep(time.Second)
		}
		if got, want := before.Load(), int64(3*pageTries); got != want {
			t.Errorf("%d refusals in three lists, want %d", got, want)
		}
		if err := store.Trouble(); codeOf(err) != http.StatusTooManyRequests {
			t.Errorf("the trouble is %v", err)
		}
	})
}

func TestAListWhosePagesExpireIsStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for i := range 40 {
			s.put(key(fmt.Sprint("o", i)), "x")
		}
		s.setIntercept(onlyPages(2, func(page int, _ *http.Request) (*http.Response, error) {
			if page == 0 {
				return nil, nil
			}
			return status(http.StatusGone, metav1.StatusReasonExpired, "the continue token is too old"), nil
		}))
		store, _ := startStore(t, configMaps(s.client(t)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := store.Sync(ctx); err != nil {
			t.Fatalf("the store does not sync: %v; %v", err, s.paths())
		}
		if n := store.Stats().Objects; n != 40 {
			t.Errorf("%d objects, want 40", n)
		}
	})
}

// Each answer of these servers has a continue token that was not there before.
func TestAListThatDoesNotEndIsATrouble(t *testing.T) {
	for name, object := range map[string]func(n int) string{
		"pages without objects":     func(int) string { return "" },
		"the same object each time": func(int) string { return "a" },
		"a new object each time":    func(n int) string { return fmt.Sprint("o", n) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				var n atomic.Int64
				s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if !isList(r) {
						return nil, nil
					}
					i := int(n.Add(1))
					return aPage(object(i), fmt.Sprint("token ", i)), nil
				})
				c := s.client(t)
				for _, err := range For[corev1.ConfigMap](c).In("default").List(t.Context()) {
					if err != nil && !errors.Is(err, wire.ErrAnswer) {
						t.Errorf("List: %v", err)
					}
				}
				store, _ := startStore(t, configMaps(c))
				synctest.Wait()
				if err := store.Trouble(); !errors.Is(err, errEndless) && !errors.Is(err, errRepeats) {
					t.Errorf("the trouble is %v after %d pages", err, n.Load())
				}
			})
		})
	}
}

func TestAPageOverTheBoundOfAnObjectIsAskedForInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for i := range 60 {
			s.put(key(fmt.Sprint("o", i)), strings.Repeat("x", 20<<10))
		}
		c, err := Config{Rest: restTo(s), MaxObjectBytes: 100 << 10}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range For[corev1.ConfigMap](c).In("default").List(t.Context()) {
			if err != nil {
				t.Fatalf("after %d objects: %v", n, err)
			}
			n++
		}
		if n != 60 {
			t.Errorf("%d objects, want 60", n)
		}
	})
}

func TestPagesThatEndAreNoFault(t *testing.T) {
	for name, objects := range map[string]struct{ pages, each int }{
		"many pages without objects":    {fewPages - 1, 0},
		"many pages with few objects":   {fewPages - 1, 1},
		"a million objects, 50 in each": {20_000, 50},
		"50 million objects":            {100_000, 500},
	} {
		t.Run(name, func(t *testing.T) {
			var p pages
			for i := range objects.pages {
				first := Key{}
				if objects.each > 0 {
					first = key(fmt.Sprint(i))
				}
				if err := p.goOn(fmt.Sprint("token ", i), first, objects.each); err != nil {
					t.Fatalf("page %d: %v", i, err)
				}
			}
		})
	}
}
