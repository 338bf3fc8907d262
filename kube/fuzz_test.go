package kube

import (
	"encoding/json"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Every status, body and header of an answer makes an error, and a wait within bounds.

func FuzzStatus(f *testing.F) {
	st := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 410,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "x"}}}}
	body, err := json.Marshal(&st)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add(inEnvelope("Status", marshal(f, &st)))
	f.Add(inEnvelope("Pod", marshal(f, &corev1.Pod{})))
	f.Add([]byte(`{"kind":"Status","reason":"ServerTimeout","code":504,"details":{"retryAfterSeconds":-1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if st, ok := wire.DecodeStatus(body); ok && st == nil {
			t.Fatal("no status")
		}
		resp := answer(500, typeJSON, body)
		err := statusError(resp, &request{resource: widgetKind, verb: "get"})
		if err == nil {
			t.Fatal("no error")
		}
		if d, asked := suggestedDelay(err); d < 0 || d > maxRetryAfter || !asked && d != 0 {
			t.Fatalf("%v: wait for %s", err, d)
		}
		if p := paceAfter(err, 0); p <= atOnce || p >= paces {
			t.Fatalf("%v: pace %d", err, p)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"5", "-1", "99999999999", "Sat, 21 Nov 2026 10:00:00 GMT", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		d, asked := retryAfter(&http.Response{Header: http.Header{"Retry-After": {header}}})
		if d < 0 || d > maxRetryAfter || !asked && d != 0 {
			t.Fatalf("%q: %s", header, d)
		}
		if j := jitter(d); j < d || j > 2*d {
			t.Fatalf("jitter of %s is %s", d, j)
		}
	})
}
