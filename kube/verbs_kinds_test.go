package kube_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestMetadataOnly asks the server for no more than metadata.
func TestMetadataOnly(t *testing.T) {
	s := start(t)
	kind := installBooks(t, s, kube.Namespaced)
	pods := kube.For[corev1.Pod](s.Client).In(s.namespace)
	books := kube.For[book](s.Client, kind).In(s.namespace)
	p := simplePod("x")
	p.Labels = map[string]string{"a": "b"}
	got(pods.Create(soon(t), p))(t)
	got(books.Create(soon(t), newBook("x", "Dune")))(t)

	check := func(t *testing.T, name string, meta kube.View[metav1.PartialObjectMetadata], object kube.View[kube.Object],
		kindName string) {
		t.Run(name, func(t *testing.T) {
			var m *metav1.PartialObjectMetadata
			var o *kube.Object
			calls := s.during(func() {
				m = got(meta.Get(soon(t), "x"))(t)
				o = got(object.Get(soon(t), "x"))(t)
				for _, err := range meta.List(soon(t)) {
					must(t, err)
				}
			})
			if m.Kind != kindName || o.Kind != kindName || m.UID == "" || m.UID != o.UID ||
				!reflect.DeepEqual(m.ObjectMeta, o.ObjectMeta) {
				t.Errorf("got %+v and %+v", m, o)
			}
			for _, c := range calls {
				if !strings.HasPrefix(c.head.String(), "k8s\x00") || !strings.Contains(c.head.String(), "PartialObjectMetadata") {
					t.Errorf("answered with %q", c.head)
				}
			}
			m = got(meta.Patch(soon(t), "x", types.MergePatchType, []byte(`{"metadata":{"labels":{"patched":"yes"}}}`)))(t)
			if m.Labels["patched"] != "yes" {
				t.Errorf("patched to %+v", m.Labels)
			}
			label := &kube.Object{}
			label.Name, label.Labels = "x", map[string]string{"applied": "yes"}
			if o = got(object.Apply(soon(t), label))(t); o.Labels["applied"] != "yes" || o.Labels["patched"] != "yes" {
				t.Errorf("applied to %+v", o.Labels)
			}
			must(t, meta.Delete(soon(t), "x", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
			if _, err := object.Get(soon(t), "x"); !apierrors.IsNotFound(err) {
				t.Errorf("after the deletion: %v", err)
			}
		})
	}
	podKind := kube.KindOf[corev1.Pod]()
	check(t, "pod", kube.ViewOf[metav1.PartialObjectMetadata](s.Client, podKind).In(s.namespace),
		kube.ViewOf[kube.Object](s.Client, podKind).In(s.namespace), "Pod")
	check(t, "book", kube.ViewOf[metav1.PartialObjectMetadata](s.Client, kind).In(s.namespace),
		kube.ViewOf[kube.Object](s.Client, kind).In(s.namespace), "Book")
}

// TestUnstructured uses a kind that is known only at run time.
func TestUnstructured(t *testing.T) {
	s := start(t)
	kind := installBooks(t, s, kube.Namespaced)
	anything := kube.For[unstructured.Unstructured](s.Client, kube.Kind{GVK: kind.GVK}).In(s.namespace)
	o := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "x"},
		"spec":     map[string]any{"title": "Dune", "pages": int64(412)},
	}}
	made := got(anything.Create(soon(t), o))(t)
	if made.GetKind() != "Book" || made.GetUID() == "" {
		t.Errorf("created %v", made)
	}
	if pages, _, err := unstructured.NestedInt64(made.Object, "spec", "pages"); err != nil || pages != 412 {
		t.Errorf("pages are %d, %v", pages, err)
	}
	must(t, unstructured.SetNestedField(made.Object, "Emma", "spec", "title"))
	got(anything.Update(soon(t), made))(t)
	intent := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "x", "labels": map[string]any{"a": "b"}},
		"spec":     map[string]any{"replicas": int64(0)},
	}}
	made = got(anything.Apply(soon(t), intent))(t)
	if intent.GetNamespace() != "" {
		t.Errorf("the caller's object was changed: %v", intent.Object)
	}
	wantOwned(t, made, "pintle-test", "", `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:replicas":{}}}`)
	n := 0
	for o, err := range anything.List(soon(t)) {
		must(t, err)
		n++
		if title, _, _ := unstructured.NestedString(o.Object, "spec", "title"); title != "Emma" || o.GetKind() != "Book" {
			t.Errorf("listed %v", o)
		}
	}
	if n != 1 {
		t.Errorf("listed %d objects", n)
	}
	must(t, unstructured.SetNestedField(made.Object, true, "status", "lent"))
	must(t, anything.Status().Apply(soon(t), made))
	made = got(anything.Get(soon(t), "x"))(t)
	if lent, _, _ := unstructured.NestedBool(made.Object, "status", "lent"); !lent {
		t.Errorf("status is %v", made.Object["status"])
	}
	must(t, anything.Delete(soon(t), "x"))

	// A built-in kind works too.
	maps := kube.For[unstructured.Unstructured](s.Client, kube.KindOf[corev1.ConfigMap]()).In(s.namespace)
	cm := got(maps.Apply(soon(t), &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "m"}, "data": map[string]any{"k": "v"},
	}}))(t)
	if cm.GetKind() != "ConfigMap" || cm.GetAPIVersion() != "v1" {
		t.Errorf("applied %v", cm)
	}
}

// podView is a view that protobuf can serve. podJSON is a view that protobuf cannot
// serve: it names a field of a type of its own.
type podView struct {
	kube.Object
	Spec struct {
		NodeName   string `json:"nodeName"`
		Containers []struct {
			Name      string                      `json:"name"`
			Image     string                      `json:"image"`
			Resources corev1.ResourceRequirements `json:"resources"`
			Env       []corev1.EnvVar             `json:"env"`
		} `json:"containers"`
		TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds"`
	} `json:"spec"`
	Status struct {
		Phase      string                `json:"phase"`
		Conditions []corev1.PodCondition `json:"conditions"`
	} `json:"status"`
}

// TestViews reads the same pod by protobuf and by JSON into the same view.
func TestViews(t *testing.T) {
	s := start(t)
	pods := kube.For[corev1.Pod](s.Client).In(s.namespace)
	p := simplePod("x")
	p.Labels = map[string]string{"a": "b"}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E",
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	got(pods.Create(soon(t), p))(t)
	p = got(pods.Get(soon(t), "x"))(t)

	proto := kube.ViewOf[podView](s.Client, kube.KindOf[corev1.Pod]()).In(s.namespace)
	// A kind that is declared by name is read as JSON.
	asJSON := kube.ViewOf[podView](s.Client, kube.Kind{GVK: kube.GVK{Version: "v1", Kind: "Pod"}}).In(s.namespace)
	var a, b *podView
	calls := s.during(func() { a = got(proto.Get(soon(t), "x"))(t) })
	if !strings.HasPrefix(calls[0].answered, "application/vnd.kubernetes.protobuf") {
		t.Errorf("answered with %q", calls[0].answered)
	}
	calls = s.during(func() { b = got(asJSON.Get(soon(t), "x"))(t) })
	if last := calls[len(calls)-1]; last.answered != "application/json" {
		t.Errorf("answered with %q", last.answered)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("by protobuf\n%+v\nby JSON\n%+v", a, b)
	}
	if a.UID != p.UID || a.Kind != "Pod" || a.Spec.Containers[0].Name != "c" ||
		!reflect.DeepEqual(a.Spec.Containers[0].Env, p.Spec.Containers[0].Env) || a.Status.Phase != "Pending" {
		t.Errorf("view is %+v", a)
	}
	for o, err := range proto.List(soon(t)) {
		must(t, err)
		if o.ResourceVersion != a.ResourceVersion || o.Spec.Containers[0].Image != "i" {
			t.Errorf("listed %+v", o)
		}
	}

	// A view of a custom kind works too.
	type title struct {
		kube.Object
		Spec struct {
			Title string `json:"title"`
		} `json:"spec"`
	}
	kind := installBooks(t, s, kube.Namespaced)
	got(kube.For[book](s.Client, kind).In(s.namespace).Create(soon(t), newBook("x", "Dune")))(t)
	if v := got(kube.ViewOf[title](s.Client, kind).In(s.namespace).Get(soon(t), "x"))(t); v.Spec.Title != "Dune" ||
		v.Kind != "Book" {
		t.Errorf("view is %+v", v)
	}
}

// TestScope checks that a wrong scope is an error before any request for the resource.
// For a custom kind, one request for its scope is allowed.
func TestScope(t *testing.T) {
	s := start(t)
	kind := installBooks(t, s, kube.ClusterScoped)
	nodes, maps := kube.For[corev1.Node](s.Client), kube.For[corev1.ConfigMap](s.Client)
	books := kube.For[book](s.Client, kind)
	inNamespace := newBook("x", "Dune")
	inNamespace.Namespace = s.namespace
	elsewhere := configMap("x")
	elsewhere.Namespace = "elsewhere"
	for name, c := range map[string]struct {
		call func() error
		want string
	}{
		"get node in namespace": {func() error { _, err := nodes.In("a").Get(soon(t), "x"); return err },
			`get Node a/x: wrong scope: Node is cluster-scoped, it has no namespace ("a" was given): leave In out`},
		"list nodes in namespace": {func() error { return first(nodes.In("a").List(soon(t))) },
			`list Node in a: wrong scope: Node is cluster-scoped, it has no namespace ("a" was given): leave In out`},
		"get without namespace": {func() error { _, err := maps.Get(soon(t), "x"); return err },
			`get ConfigMap x: wrong scope: ConfigMap is namespaced: set the namespace with In`},
		"get in two": {func() error { _, err := maps.In("a", "b").Get(soon(t), "x"); return err },
			`get ConfigMap x: wrong scope: one object is in one namespace, the handle is in 2`},
		"create without namespace": {func() error { _, err := maps.Create(soon(t), configMap("x")); return err },
			`create ConfigMap x: wrong scope: ConfigMap is namespaced: set the object's namespace or the handle's with In`},
		"apply elsewhere": {func() error { _, err := maps.In("a").Apply(soon(t), elsewhere); return err },
			`apply ConfigMap elsewhere/x: wrong scope: the object is in namespace "elsewhere", the handle in ["a"]`},
		"custom kind in namespace": {func() error { _, err := books.In("a").Get(soon(t), "x"); return err },
			`get Book a/x: wrong scope: Book is cluster-scoped, it has no namespace ("a" was given): leave In out`},
		"custom object in namespace": {func() error { _, err := books.Create(soon(t), inNamespace); return err },
			`create Book ` + s.namespace + `/x: wrong scope: Book is cluster-scoped, it has no namespace ("` + s.namespace +
				`" was given): leave In out`},
		"empty namespace": {func() error { _, err := maps.In("").Get(soon(t), "x"); return err },
			`get ConfigMap x: wrong scope: an empty namespace for ConfigMap; leave In out for all namespaces`},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			calls := s.during(func() { err = c.call() })
			if !errors.Is(err, kube.ErrScope) || err.Error() != c.want {
				t.Errorf("got error\n%v\nwant\n%s", err, c.want)
			}
			for _, call := range calls {
				if call.path != "/apis/"+kind.Group+"/v1" {
					t.Errorf("unexpected request:%s", rows(calls))
				}
			}
		})
	}
}

// first returns the first error of a list.
func first[T any](list func(func(*T, error) bool)) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}
