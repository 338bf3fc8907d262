package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhichRequestsAreRepeated(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	get := func(t *testing.T, r Resource[corev1.ConfigMap]) error { _, err := r.Get(t.Context(), "a"); return err }
	create := func(t *testing.T, r Resource[corev1.ConfigMap]) error {
		_, err := r.Create(t.Context(), cm)
		return err
	}
	update := func(t *testing.T, r Resource[corev1.ConfigMap]) error {
		_, err := r.Update(t.Context(), cm)
		return err
	}
	remove := func(t *testing.T, r Resource[corev1.ConfigMap]) error { return r.Delete(t.Context(), "a") }
	lost := func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	half := func(r *http.Request) (*http.Response, error) {
		resp, out := piped(r, typeJSON)
		go func() {
			_, _ = out.Write([]byte(`{"kind":`))
			out.CloseWithError(io.ErrUnexpectedEOF)
		}()
		return resp, nil
	}
	code := func(code int, after string) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) {
			resp := answer(code, "text/plain", []byte("busy"))
			if after != "" {
				resp.Header.Set("Retry-After", after)
			}
			return resp, nil
		}
	}
	for _, tc := range []struct {
		name  string
		do    func(*testing.T, Resource[corev1.ConfigMap]) error
		fails func(*http.Request) (*http.Response, error)
		tries int // the number of tries, if every try fails
	}{
		{"get, lost", get, lost, 1 + maxLost},
		{"get, half", get, half, 1 + maxLost},
		{"get, refused", get, func(*http.Request) (*http.Response, error) { return nil, refused() }, 1},
		{"get, 503", get, code(503, ""), maxTries},
		{"get, 504", get, code(504, ""), maxTries},
		{"get, 500", get, code(500, ""), 1},
		{"get, 404", get, code(404, ""), 1},
		{"create, lost", create, lost, 1},
		{"create, half", create, half, 1},
		{"create, 503", create, code(503, ""), 1},
		{"create, 504", create, code(504, ""), 1},
		{"create, 503 with Retry-After", create, code(503, "3"), maxTries},
		{"create, 500 with Retry-After", create, code(500, "3"), maxTries},
		{"create, 429", create, code(429, "3"), maxTries},
		{"update, lost", update, lost, 1},
		{"update, 503", update, code(503, ""), 1},
		{"update, 409", update, code(409, "1"), 1},
		{"delete, lost", remove, lost, 1},
		{"delete, 502", remove, code(502, ""), 1},
		{"delete, 429", remove, code(429, ""), maxTries},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				s.put(key("a"), "one")
				s.intercept = func(_ int, r *http.Request) (*http.Response, error) { return tc.fails(r) }
				r := For[corev1.ConfigMap](s.client(t)).In("default")
				start := time.Now()
				err := tc.do(t, r)
				if n := len(s.requests); n != tc.tries || err == nil {
					t.Errorf("%d requests: %v", n, err)
				}
				if strings.Contains(tc.name, "Retry-After") && time.Since(start) < 3*time.Second*(maxTries-1) {
					t.Errorf("only %s for %d tries", time.Since(start), maxTries)
				}
				if strings.Contains(tc.name, "lost") && !errors.Is(err, errLost) {
					t.Errorf("the answer was lost, and the error does not say so: %v", err)
				}
				// Once the server answers, the request succeeds.
				s.requests = nil
				s.intercept = func(n int, r *http.Request) (*http.Response, error) {
					if n == 1 {
						return tc.fails(r)
					}
					return nil, nil
				}
				if err := tc.do(t, r); (err == nil) != (tc.tries > 1) {
					t.Errorf("once it works: %v", err)
				}
			})
		})
	}
}

func TestEvictionThatABudgetForbidsIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.intercept = func(int, *http.Request) (*http.Response, error) {
			st := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 429,
				Reason: metav1.StatusReasonTooManyRequests,
				Details: &metav1.StatusDetails{RetryAfterSeconds: 10,
					Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "needs 2 healthy pods"}}}}
			resp := jsonAnswer(429, &st)
			resp.Header.Set("Retry-After", "10")
			return resp, nil
		}
		pods := For[corev1.Pod](s.client(t)).In("default")
		_, err := Sub[policyv1.Eviction](pods, "eviction").Create(t.Context(), "p", &policyv1.Eviction{})
		if !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) || len(s.requests) != 1 {
			t.Errorf("%d requests: %v", len(s.requests), err)
		}
	})
}

func TestRetryAfterHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			header string
			want   time.Duration
			asked  bool
		}{
			{"", 0, false}, {"5", 5 * time.Second, true}, {"0", 0, true}, {"-5", 0, true}, {"soon", 0, false},
			{"99999999999999999999", 0, false}, {"9223372036854775807", maxRetryAfter, true}, {"9300000000", maxRetryAfter,
				true}, {"-9223372036854775808", 0, true},
			{time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat), 30 * time.Second, true},
			{time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 0, true},
		} {
			resp := &http.Response{Header: http.Header{"Retry-After": {tc.header}}}
			if d, asked := retryAfter(resp); d.Round(time.Second) != tc.want || asked != tc.asked {
				t.Errorf("%q: %s, %t", tc.header, d, asked)
			}
		}
	})
}

func TestEndOfContextWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.intercept = func(int, *http.Request) (*http.Response, error) {
			resp := answer(429, "text/plain", nil)
			resp.Header.Set("Retry-After", "60")
			return resp, nil
		}
		why := errors.New("shutting down")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		start := time.Now()
		_, err := For[corev1.ConfigMap](s.client(t)).In("default").Get(ctx, "a")
		if time.Since(start) > time.Second || !errors.Is(err, why) || !apierrors.IsTooManyRequests(err) {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}
