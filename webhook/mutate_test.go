package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pintle-go/pintle/kube"
)

// patched returns the object that the API server makes of an object and the answer of a hook.
func patched(t testing.TB, object string, r *admissionv1.AdmissionResponse) string {
	t.Helper()
	if !r.Allowed {
		t.Fatalf("refused: %+v", r.Result)
	}
	if r.Patch == nil {
		return object
	}
	patch, err := jsonpatch.DecodePatch(r.Patch)
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatalf("apply %s to %s: %v", r.Patch, object, err)
	}
	return string(out)
}

func sameJSON(t testing.TB, got, want string) {
	t.Helper()
	var g, w any
	if err := errors.Join(json.Unmarshal([]byte(got), &g), json.Unmarshal([]byte(want), &w)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDefault(t *testing.T) {
	h := Default(offline(t).books, func(_ context.Context, b *book) error {
		if b.Spec.Shelf == "" {
			b.Spec.Shelf = "new"
		}
		return nil
	})
	unknown := strings.Replace(dune, `"title"`, `"u":{"deep":[1,null]},"title"`, 1)
	for name, test := range map[string]struct {
		operation, object, old, want string
	}{
		"create":         {"CREATE", dune, "", strings.Replace(dune, `"title"`, `"shelf":"new","title"`, 1)},
		"update":         {"UPDATE", dune, emma, strings.Replace(dune, `"title"`, `"shelf":"new","title"`, 1)},
		"it is there":    {"CREATE", strings.Replace(dune, `"title"`, `"shelf":"a","title"`, 1), "", strings.Replace(dune, `"title"`, `"shelf":"a","title"`, 1)},
		"unknown fields": {"CREATE", unknown, "", strings.Replace(unknown, `"title"`, `"shelf":"new","title"`, 1)},
		"without a spec": {"CREATE", `{"metadata":{}}`, "", `{"metadata":{},"spec":{"shelf":"new"}}`},
		"generateName":   {"CREATE", `{"metadata":{"generateName":"b-"},"spec":{}}`, "", `{"metadata":{"generateName":"b-"},"spec":{"shelf":"new"}}`},
		"a deletion":     {"DELETE", "", dune, ""},
		"while it is deleted": {
			"UPDATE", `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{}}`, dune,
			`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := send1(t, h, ask(test.operation, test.object, test.old))
			if test.want == "" {
				if !got.Allowed || got.Patch != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			sameJSON(t, patched(t, test.object, got), test.want)
		})
	}
}

// A refusal has no patch.
func TestMutateRefuses(t *testing.T) {
	h := Mutate(offline(t).books, func(ctx context.Context, b *book) error {
		b.Spec.Shelf = "new"
		Warn(ctx, "careful")
		return Invalid("spec.title", b.Spec.Title, "no")
	})
	got := send1(t, h, ask("CREATE", dune, ""))
	if got.Allowed || got.Patch != nil || got.Result.Code != 422 || len(got.Result.Details.Causes) != 1 || len(got.Warnings) != 1 {
		t.Errorf("got %+v", got)
	}
}

// Members that the server owns cannot be changed: the answer tells the author which one it is.
func TestMutateServerOwned(t *testing.T) {
	for at, change := range map[string]func(*book){
		"/metadata/name":              func(b *book) { b.Name = "x" },
		"/metadata/generateName":      func(b *book) { b.GenerateName = "x" },
		"/metadata/namespace":         func(b *book) { b.Namespace = "x" },
		"/metadata/uid":               func(b *book) { b.UID = "x" },
		"/metadata/resourceVersion":   func(b *book) { b.ResourceVersion = "x" },
		"/metadata/generation":        func(b *book) { b.Generation = 9 },
		"/metadata/managedFields":     func(b *book) { b.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}} },
		"/metadata/creationTimestamp": func(b *book) { b.CreationTimestamp = metav1.Now() },
		"/metadata/deletionTimestamp": func(b *book) { now := metav1.Now(); b.DeletionTimestamp = &now },
		"/status":                     func(b *book) { b.Status.Lent = true },
		"/kind":                       func(b *book) { b.Kind = "Author" },
	} {
		t.Run(at, func(t *testing.T) {
			h := Default(offline(t).books, func(_ context.Context, b *book) error { change(b); return nil })
			got := send1(t, h, ask("CREATE", dune, ""))
			want := "make a patch of the changes that the function to default Book made: change " + at + ": it cannot be changed here"
			if got.Allowed || got.Patch != nil || got.Result.Code != 500 || got.Result.Message != want {
				t.Errorf("got %+v, %q", got, got.Result.Message)
			}
		})
	}
	h := Default(offline(t).books, func(_ context.Context, b *book) error {
		b.Labels, b.Annotations, b.Finalizers = map[string]string{"a": "b"}, map[string]string{"c/d": "e"}, []string{"f.example.com/x"}
		return nil
	})
	sameJSON(t, patched(t, dune, send1(t, h, ask("CREATE", dune, ""))), strings.Replace(dune, `"name":"dune"`,
		`"name":"dune","labels":{"a":"b"},"annotations":{"c/d":"e"},"finalizers":["f.example.com/x"]`, 1))
}

// The status can be changed where it is written.
func TestMutateStatus(t *testing.T) {
	h := Mutate(Sub[book](offline(t).books, "status"), func(_ context.Context, b *book) error { b.Status.Lent = true; return nil })
	q := ask("UPDATE", dune, dune)
	q.SubResource = "status"
	sameJSON(t, patched(t, dune, send1(t, h, q)), strings.Replace(dune, `"spec"`, `"status":{"lent":true},"spec"`, 1))
}

// three is a view of three fields of a pod.
type three struct {
	kube.Object
	Spec struct {
		Node       string `json:"nodeName,omitempty"`
		Containers []struct {
			Name  string `json:"name"`
			Image string `json:"image,omitempty"`
		} `json:"containers"`
	} `json:"spec"`
}

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","creationTimestamp":null},"spec":{"containers":[` +
	`{"name":"a","image":"x","resources":{"limits":{"cpu":"1"}},"securityContext":null},` +
	`{"name":"b","image":"y","tty":true}],"hostUsers":false},"status":{}}`

func askPod(object string) *admissionv1.AdmissionRequest {
	q := ask("CREATE", object, "")
	q.Kind, q.Resource = metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	return q
}

func TestMutateView(t *testing.T) {
	view := kube.ViewOf[three](offline(t).pods.Client(), kube.KindOf[corev1.Pod]())
	for name, test := range map[string]struct {
		change   func(*three)
		old, new string
	}{
		"an image": {
			func(p *three) { p.Spec.Containers[0].Image = "mirror/x" }, `"image":"x"`, `"image":"mirror/x"`,
		},
		"a sidecar": {
			func(p *three) {
				c := p.Spec.Containers[0]
				c.Name = "sidecar"
				p.Spec.Containers = append(p.Spec.Containers, c)
			},
			`"tty":true}`, `"tty":true},{"name":"sidecar","image":"x"}`,
		},
		"the other order": {
			func(p *three) { c := p.Spec.Containers; c[0], c[1] = c[1], c[0] },
			`{"name":"a","image":"x","resources":{"limits":{"cpu":"1"}},"securityContext":null},{"name":"b","image":"y","tty":true}`,
			`{"name":"b","image":"y","tty":true},{"name":"a","image":"x","resources":{"limits":{"cpu":"1"}},"securityContext":null}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := Mutate(view, func(_ context.Context, p *three) error { test.change(p); return nil })
			sameJSON(t, patched(t, pod, send1(t, h, askPod(pod))), strings.Replace(pod, test.old, test.new, 1))
		})
	}
}

// A change of a list whose items cannot be told apart is refused, because it would lose their other fields.
func TestMutateAmbiguous(t *testing.T) {
	type view struct {
		kube.Object
		Spec struct {
			Tolerations []struct {
				Operator string `json:"operator,omitempty"`
			} `json:"tolerations,omitempty"`
		} `json:"spec"`
	}
	h := Mutate(kube.ViewOf[view](offline(t).pods.Client(), kube.KindOf[corev1.Pod]()), func(_ context.Context, p *view) error {
		p.Spec.Tolerations = p.Spec.Tolerations[1:]
		return nil
	})
	object := `{"metadata":{},"spec":{"tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]}}`
	r := post(t.Context(), serve(t, Options{}, h), h.Path(), strings.NewReader(string(reviewOf(t, askPod(object)))))
	got := answered(t, r)
	if r.Code != 500 || got.Allowed || got.Patch != nil || !strings.Contains(got.Result.Message, "ambiguous change: /spec/tolerations") {
		t.Errorf("status %d, %+v", r.Code, got)
	}
}

func TestMutateUnstructured(t *testing.T) {
	loose := kube.For[unstructured.Unstructured](offline(t).pods.Client(), kube.Kind{GVK: book{}.GVK()})
	h := Default(loose, func(_ context.Context, u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, "new", "spec", "shelf")
	})
	object := strings.Replace(dune, `"title"`, `"big":9007199254740993,"exp":1e3,"title"`, 1)
	got := send1(t, h, ask("CREATE", object, ""))
	if want := `[{"op":"add","path":"/spec/shelf","value":"new"}]`; string(got.Patch) != want {
		t.Errorf("got %s, want %s", got.Patch, want)
	}
}

// FuzzMutate takes any two objects: the function turns the pod that it gets into the second one.
func FuzzMutate(f *testing.F) {
	f.Add([]byte(pod), []byte(`{"spec":{"nodeName":"n","containers":[{"name":"b"}]}}`))
	f.Add([]byte(`{"metadata":{"labels":null},"spec":{"containers":[{"name":"a","image":null}]}}`), []byte(`{"spec":{}}`))
	f.Add([]byte(`{"metadata":{"labels":{"a/~b":"1"},"x":1e3},"u":9007199254740993}`), []byte(`{"metadata":{"labels":{"~1":""}}}`))
	h := Mutate(offline(f).pods, func(_ context.Context, p *corev1.Pod) error { return nil }).(*hook)
	f.Fuzz(func(t *testing.T, raw, other []byte) {
		o, err := h.decode(other)
		if err != nil || !json.Valid(raw) {
			return
		}
		h.change = func(_ context.Context, into any) error {
			p, to := into.(*corev1.Pod), o.(*corev1.Pod).DeepCopy()
			p.Labels, p.Annotations, p.Spec = to.Labels, to.Annotations, to.Spec
			return nil
		}
		q := request{UID: "7", Operation: opCreate, Object: raw}
		r, err := h.admit(t.Context(), &q)
		if err != nil || r.Patch == nil {
			return
		}
		ops, err := jsonpatch.DecodePatch(r.Patch)
		if err != nil {
			t.Fatal(err)
		}
		out, err := ops.Apply(raw)
		if err != nil {
			t.Fatalf("apply %s to %s: %v", r.Patch, raw, err)
		}
		q.Object = out
		if again, err := h.admit(t.Context(), &q); err != nil || again.Patch != nil {
			t.Fatalf("the second time: %s, %v\nraw   %s\nother %s\npatch %s", again.Patch, err, raw, other, r.Patch)
		}
	})
}
