package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// repeating returns a client of a server that gives each request the same answer.
func repeating(t *testing.T, contentType, body string) *Client {
	t.Helper()
	s := newAPIServer()
	s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/apis/example.com/v1" {
			return nil, errors.New("there is no discovery")
		}
		return answer(http.StatusOK, contentType, []byte(body)), nil
	})
	return s.client(t)
}

// verbsOfOne are the requests that are answered with the object x in namespace a.
func verbsOfOne[T any](t *testing.T, h Resource[T], o *T, change func(*T)) map[string]func() error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	h = h.In("a")
	edit := func(o *T) error { change(o); return nil }
	return map[string]func() error{
		"get":           func() error { return second(h.Get(ctx, "x")) },
		"create":        func() error { return second(h.Create(ctx, o)) },
		"update":        func() error { return second(h.Update(ctx, o)) },
		"apply":         func() error { return second(h.Apply(ctx, o)) },
		"ensure":        func() error { return second(h.Ensure(ctx, o)) },
		"modify":        func() error { return second(h.Modify(ctx, "x", edit)) },
		"patch":         func() error { return second(h.Patch(ctx, "x", types.MergePatchType, []byte("{}"))) },
		"delete":        func() error { return h.Delete(ctx, "x") },
		"status apply":  func() error { return h.Status().Apply(ctx, o) },
		"status ensure": func() error { return h.Status().Ensure(ctx, o) },
		"status update": func() error { return h.Status().Update(ctx, o) },
		"status patch":  func() error { return h.Status().Patch(ctx, "x", types.MergePatchType, []byte("{}")) },
		"until gone":    func() error { return h.UntilGone(ctx, "x") },
	}
}

// An answer that holds another object than the request is about is an error that says what
// came.
func TestAnswerIsAnotherObject(t *testing.T) {
	object := func(apiVersion, kind, namespace, name string) string {
		return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"namespace":%q,"name":%q,"uid":"u","resourceVersion":"7"}}`,
			kind, apiVersion, namespace, name)
	}
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: "7"}}
	msg, err := secret.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, came := range map[string]struct{ contentType, body, says string }{
		"kind":      {typeJSON, object("v1", "Secret", "a", "x"), "Secret of v1"},
		"protobuf":  {typeProtobuf, string(inEnvelope("Secret", msg)), "Secret of v1"},
		"group":     {typeJSON, object("example.org/v1", "ConfigMap", "a", "x"), "ConfigMap of example.org/v1"},
		"list":      {typeJSON, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{},"items":[]}`, "ConfigMapList of v1"},
		"name":      {typeJSON, object("v1", "ConfigMap", "a", "y"), "a/y"},
		"namespace": {typeJSON, object("v1", "ConfigMap", "b", "x"), "b/x"},
		"kind last": {typeJSON, `{"metadata":{"namespace":"a","name":"x","uid":"u"},"kind":"Secret","apiVersion":"v1"}`, "Secret of v1"},
	} {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "a"}}
		h := For[corev1.ConfigMap](repeating(t, came.contentType, came.body))
		for verb, use := range verbsOfOne(t, h, o, func(o *corev1.ConfigMap) { o.Data = map[string]string{"a": "b"} }) {
			if strings.HasPrefix(verb, "status") {
				continue // ConfigMaps have none
			}
			if err := use(); !errors.Is(err, wire.ErrAnswer) || !strings.Contains(err.Error(), came.says) {
				t.Errorf("another %s, %s: error %v", name, verb, err)
			}
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "a"}}
		pods := For[corev1.Pod](repeating(t, came.contentType, strings.ReplaceAll(came.body, "ConfigMap", "Pod")))
		for verb, use := range verbsOfOne(t, pods, pod, func(o *corev1.Pod) { o.Status.Message = "a" }) {
			says := strings.ReplaceAll(came.says, "ConfigMap", "Pod")
			if err := use(); !errors.Is(err, wire.ErrAnswer) || !strings.Contains(err.Error(), says) {
				t.Errorf("another %s, %s of a pod: error %v", name, verb, err)
			}
		}
	}
	for name, body := range map[string]string{
		"a Status":       `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the proxy is full"}`,
		"a late Status":  `{"apiVersion":"v1","status":"Failure","message":"the proxy is full","kind":"Status"}`,
		"without a name": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"a"}}`,
	} {
		_, err := For[corev1.ConfigMap](repeating(t, typeJSON, body)).In("a").Get(t.Context(), "x")
		if !errors.Is(err, wire.ErrAnswer) || strings.Contains(body, "full") && !strings.Contains(err.Error(), "the proxy is full") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// What servers answer is taken: a generated name, another version, metadata alone, objects
// that are not stored, and answers that leave the kind out.
func TestAnswerIsTheObject(t *testing.T) {
	ctx := t.Context()
	get := func(body string) error {
		return second(For[corev1.ConfigMap](repeating(t, typeJSON, body)).In("a").Get(ctx, "x"))
	}
	const meta = `"metadata":{"namespace":"a","name":"x","uid":"u","resourceVersion":"7"}`
	generated := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}
	review := &authorizationv1.LocalSubjectAccessReview{}
	view := Kind{GVK: widgetKind.GVK, Plural: "widgets", Scope: Namespaced}
	untyped := new(unstructured.Unstructured)
	untyped.SetName("x")
	for name, err := range map[string]error{
		"without a kind":    get(`{` + meta + `}`),
		"another version":   get(`{"kind":"ConfigMap","apiVersion":"v2",` + meta + `}`),
		"without a version": get(`{"kind":"ConfigMap",` + meta + `}`),
		"metadata alone": second(ViewOf[Object](repeating(t, typeJSON,
			`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",`+meta+`}`), view).In("a").Get(ctx, "x")),
		"all for metadata alone": second(ViewOf[Object](repeating(t, typeJSON,
			`{"kind":"Widget","apiVersion":"example.com/v1",`+meta+`}`), view).In("a").Get(ctx, "x")),
		"a generated name": second(For[corev1.ConfigMap](repeating(t, typeJSON,
			`{"kind":"ConfigMap","apiVersion":"v1",`+meta+`}`)).In("a").Create(ctx, generated)),
		"an object that is not stored": second(For[authorizationv1.LocalSubjectAccessReview](repeating(t, typeJSON,
			`{"kind":"LocalSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"status":{"allowed":true}}`)).
			In("a").Create(ctx, review)),
		"unstructured": second(For[unstructured.Unstructured](repeating(t, typeJSON,
			`{"kind":"Widget","apiVersion":"example.com/v1",`+meta+`}`), widgetKind).In("a").Update(ctx, untyped)),
		"status of a view": ViewOf[Object](repeating(t, typeJSON,
			`{"kind":"Widget","apiVersion":"example.com/v1",`+meta+`}`), view).In("a").
			Status().Patch(ctx, "x", types.MergePatchType, []byte("{}")),
		"a deletion with a Status": For[corev1.ConfigMap](repeating(t, typeJSON,
			`{"kind":"Status","apiVersion":"v1","status":"Success","details":{"uid":"u"}}`)).In("a").Delete(ctx, "x"),
		"a deletion with the object": For[corev1.ConfigMap](repeating(t, typeJSON,
			`{"kind":"ConfigMap","apiVersion":"v1",`+meta+`}`)).In("a").Delete(ctx, "x"),
		"a deletion with nothing": For[corev1.ConfigMap](repeating(t, typeJSON, `{}`)).In("a").Delete(ctx, "x"),
	} {
		if err != nil {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A subresource whose answer is a failure is an error, also with a status code of success.
func TestFailureOfASubresource(t *testing.T) {
	h := For[corev1.Pod](repeating(t, typeJSON, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"full"}`))
	_, err := Sub[corev1.Binding](h.In("a"), "binding").Create(t.Context(), "x", new(corev1.Binding))
	if err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("error %v", err)
	}
}
