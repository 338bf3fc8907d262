package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// book is an own kind.
type book struct {
	kube.Object
	Spec   bookSpec   `json:"spec"`
	Status bookStatus `json:"status,omitzero"`
}

type bookSpec struct {
	Title    string    `json:"title"`
	Shelf    string    `json:"shelf,omitempty"`
	Chapters []chapter `json:"chapters,omitempty"`
}

type chapter struct {
	Name  string `json:"name"`
	Pages int    `json:"pages,omitempty"`
}

type bookStatus struct {
	Lent bool `json:"lent,omitempty"`
}

func (book) GVK() kube.GVK {
	return kube.GVK{Group: "library.example.com", Version: "v1", Kind: "Book"}
}

// handles are made without a server.
type handles struct {
	books kube.Resource[book]
	pods  kube.Resource[corev1.Pod]
}

func offline(t testing.TB) handles {
	t.Helper()
	client, err := kube.Config{Rest: &rest.Config{Host: "http://127.0.0.1:1"}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	books := kube.For[book](client, kube.Kind{Plural: "books", Scope: kube.Namespaced})
	return handles{books, kube.For[corev1.Pod](client)}
}

// ask is a request for a book.
func ask(operation, object, oldObject string) *admissionv1.AdmissionRequest {
	q := &admissionv1.AdmissionRequest{
		UID: "7", Operation: admissionv1.Operation(operation), Namespace: "shop", Name: "dune",
		Kind:     metav1.GroupVersionKind(book{}.GVK()),
		Resource: metav1.GroupVersionResource{Group: "library.example.com", Version: "v1", Resource: "books"},
	}
	if object != "" {
		q.Object = runtime.RawExtension{Raw: []byte(object)}
	}
	if oldObject != "" {
		q.OldObject = runtime.RawExtension{Raw: []byte(oldObject)}
	}
	return q
}

func reviewOf(t testing.TB, q *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: q,
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func serve(t testing.TB, o Options, hooks ...Hook) *server {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h, err := Handler(o, hooks...)
	if err != nil {
		t.Fatal(err)
	}
	return h.(*server)
}

func post(ctx context.Context, h http.Handler, path string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, body)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// send1 sends a request to a hook, and reads the answer as the API server does.
func send1(t testing.TB, h Hook, q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	return answered(t, post(t.Context(), serve(t, Options{}, h), h.Path(), bytes.NewReader(reviewOf(t, q))))
}

func answered(t testing.TB, w *httptest.ResponseRecorder) *admissionv1.AdmissionResponse {
	t.Helper()
	var r admissionv1.AdmissionReview
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("status %d: %v", w.Code, err)
	}
	// These are the rules of the API server.
	switch {
	case r.APIVersion != "admission.k8s.io/v1" || r.Kind != "AdmissionReview" || r.Response == nil:
		t.Fatalf("answered a %s of %s", r.Kind, r.APIVersion)
	case r.Response.UID != "7":
		t.Fatalf("answered uid %q", r.Response.UID)
	case (len(r.Response.Patch) > 0) != (r.Response.PatchType != nil):
		t.Fatalf("patch %q of type %v", r.Response.Patch, r.Response.PatchType)
	}
	return r.Response
}
