package kube

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// The error of a Status without a message names the code and the reason.
func TestStatusWithoutAMessage(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`: "status 409, reason Conflict",
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid"}`:             "reason Invalid",
		`{"kind":"Status","apiVersion":"v1","status":"Failure"}`:                                "reason unknown",
	} {
		for _, code := range []int{http.StatusOK, http.StatusUnprocessableEntity} {
			s := newAPIServer()
			s.setIntercept(func(int, *http.Request) (*http.Response, error) {
				return answer(code, typeJSON, []byte(body)), nil
			})
			pods := For[corev1.Pod](s.client(t)).In("default")
			errs := map[string]error{
				"delete":     pods.Delete(t.Context(), "a"),
				"delete all": pods.DeleteAll(t.Context()),
				"evict":      second(Sub[policyv1.Eviction](pods, "eviction").Create(t.Context(), "a", new(policyv1.Eviction))),
			}
			if code != http.StatusOK {
				_, errs["get"] = pods.Get(t.Context(), "a")
				if !strings.Contains(body, "code") {
					want = fmt.Sprintf("status %d, reason", code)
				}
			}
			for verb, err := range errs {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s, answered with %d and %s: error %v", verb, code, body, err)
				}
			}
		}
	}
}

// So does the trouble of a watch that ends with such a Status.
func TestStatusWithoutAMessageEndsAWatch(t *testing.T) {
	s := newAPIServer()
	s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
		if !isWatch(r) {
			return nil, nil
		}
		return answer(200, typeJSON, jsonEvent("ERROR", []byte(`{"kind":"Status","status":"Failure","code":500}`))), nil
	})
	for _, err := range configMaps(s.client(t)).Watch(t.Context()) {
		if err == nil {
			continue
		}
		if !strings.Contains(err.Error(), "status 500, reason unknown") {
			t.Error(err)
		}
		return
	}
}
