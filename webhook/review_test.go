package webhook

import (
	"bytes"
	"context"
	"net/http"
	"testing"
)

// FuzzReview sends any body: it is answered, nothing is kept, and nothing is allowed without a function.
func FuzzReview(f *testing.F) {
	h := Validate(offline(f).books, Checks[book]{Create: func(context.Context, *book) error { return Invalid("spec", 1, "no") }})
	for _, body := range [][]byte{
		reviewOf(f, ask("CREATE", dune, "")), reviewOf(f, ask("CREATE", "[]", "")), []byte("{}"),
		[]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"7","operation":"CREATE","object":null}}`),
		[]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"7","uid":"8"}}`),
		[]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":7,"dryRun":1}}`),
	} {
		f.Add(body)
	}
	s := serve(f, Options{Settling: 1}, h)
	f.Fuzz(func(t *testing.T, body []byte) {
		w := post(t.Context(), s, h.Path(), bytes.NewReader(body))
		if s.mu.Lock(); s.free != defaultMaxBytes {
			t.Errorf("%d bytes are free", s.free)
		}
		s.mu.Unlock()
		allowed := bytes.Contains(w.Body.Bytes(), []byte(`"allowed":true`))
		if w.Code == http.StatusOK && allowed && bytes.Contains(body, []byte("CREATE")) {
			t.Errorf("allowed %s: %s", body, w.Body)
		}
	})
}
