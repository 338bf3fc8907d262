package webhook_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	kubepod "github.com/pintle-go/pintle/kube/pod"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/webhook"
	"github.com/pintle-go/pintle/webhook/webhooktest"
)

// warnings is a log that keeps the warnings which a client gets.
type warnings struct {
	mu   sync.Mutex
	text []string
}

// Enabled implements slog.Handler.
func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if r.Message == "server warning" && a.Key == "text" {
			w.text = append(w.text, a.Value.String())
		}
		return true
	})
	return nil
}

// WithAttrs implements slog.Handler.
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w *warnings) WithGroup(string) slog.Handler { return w }

func (w *warnings) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.text = nil }()
	return w.text
}

// realFixture is an API server with a namespace and a kind of its own.
type realFixture struct {
	*testing.T
	client    *kube.Client
	namespace string
	novels    kube.Resource[novel]
	warned    *warnings
}

// novel is a custom kind. Its group is that of the test.
type novel struct {
	kube.Object
	Spec struct {
		Title    string `json:"title,omitempty"`
		Shelf    string `json:"shelf,omitempty"`
		Replicas int32  `json:"replicas,omitempty"`
	} `json:"spec"`
	Status struct {
		Replicas int32 `json:"replicas,omitempty"`
	} `json:"status,omitzero"`
}

const novelDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
	"metadata":{"name":"novels.GROUP"},"spec":{"group":"GROUP","scope":"Namespaced",
	"names":{"kind":"Novel","plural":"novels","singular":"novel","listKind":"NovelList"},
	"versions":[{"name":"v1","served":true,"storage":true,
	"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
	"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}}}]}}`

func start(t *testing.T) *realFixture {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	f := &realFixture{T: t, namespace: cluster.Namespace(t), warned: &warnings{}}
	var err error
	if f.client, err = (kube.Config{Rest: cluster.Config(), Logger: slog.New(f.warned)}).Connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.client.Close)
	group := f.namespace + ".example.com"
	definitions := kube.For[unstructured.Unstructured](f.client, kube.Kind{
		GVK:    kube.GVK{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		Plural: "customresourcedefinitions", Scope: kube.ClusterScoped,
	})
	d := &unstructured.Unstructured{}
	if err := d.UnmarshalJSON([]byte(strings.ReplaceAll(novelDefinition, "GROUP", group))); err != nil {
		t.Fatal(err)
	}
	if _, err := definitions.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = definitions.Delete(context.Background(), d.GetName()) })
	kind := kube.Kind{GVK: kube.GVK{Group: group, Version: "v1", Kind: "Novel"}, Plural: "novels", Scope: kube.Namespaced}
	f.novels = kube.For[novel](f.client, kind).In(f.namespace)
	kubetest.Eventually(t, "the kind is served", func() error {
		for _, err := range f.novels.List(t.Context()) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	return f
}

func (f *realFixture) novel(name, title string) *novel {
	n := &novel{}
	n.Name, n.Spec.Title = name, title
	return n
}

func (f *realFixture) create(name, title string) *novel {
	f.Helper()
	n, err := f.novels.Create(f.Context(), f.novel(name, title))
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// patch sends a merge patch.
func (f *realFixture) patch(name, patch string) (*novel, error) {
	return f.novels.Patch(f.Context(), name, types.MergePatchType, []byte(patch))
}

func (f *realFixture) check(err error, want string) {
	f.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		f.Errorf("got %v, want %q", err, want)
	}
}

func TestRealValidation(t *testing.T) {
	f := start(t)
	bad := func(n *novel) error {
		var all []error
		if n.Spec.Title == "bad" {
			all = append(all, webhook.Invalid("spec.title", n.Spec.Title, "choose another"))
		}
		if n.Spec.Shelf == "cellar" {
			all = append(all, webhook.Invalid("spec.shelf", n.Spec.Shelf, "it is wet"))
		}
		return errors.Join(all...)
	}
	var deleted sync.Map
	webhooktest.Register(t, f.client, webhook.Validate(f.novels, webhook.Checks[novel]{
		Create: func(ctx context.Context, n *novel) error {
			if n.Spec.Title == "warned" {
				webhook.Warn(ctx, "think again")
				webhook.Warn(ctx, "and\nagain")
			}
			if generated := n.GenerateName != ""; generated && (n.Name == "" || webhook.Request(ctx).Name == "") {
				return errors.New("a name is not there yet")
			}
			return bad(n)
		},
		Update: func(_ context.Context, before, after *novel) error {
			if before.Spec.Title == "fixed" && after.Spec.Title != "fixed" {
				return webhook.Invalid("spec.title", after.Spec.Title, "it is fixed")
			}
			return bad(after)
		},
		Delete: func(ctx context.Context, n *novel) error {
			deleted.Store(webhook.Request(ctx).Name, n.Spec.Title)
			if n.Spec.Title == "kept" {
				return errors.New("it is kept")
			}
			return nil
		},
	}))

	n := f.novel("a", "bad")
	n.Spec.Shelf = "cellar"
	_, err := f.novels.Create(t.Context(), n)
	f.check(err, `denied the request: Novel.`+f.namespace+`.example.com "a" is invalid: [spec.title: Invalid value: "bad": `+
		`choose another, spec.shelf: Invalid value: "cellar": it is wet]`)
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		t.Fatalf("got %v", err)
	}
	want := []metav1.StatusCause{
		{Type: "FieldValueInvalid", Message: `Invalid value: "bad": choose another`, Field: "spec.title"},
		{Type: "FieldValueInvalid", Message: `Invalid value: "cellar": it is wet`, Field: "spec.shelf"},
	}
	if got := status.Status(); got.Code != 422 || !reflect.DeepEqual(got.Details.Causes, want) {
		t.Errorf("got %+v", got)
	}

	f.warned.took()
	f.create("warned", "warned")
	if got := f.warned.took(); !reflect.DeepEqual(got, []string{"think again", "and again"}) {
		t.Errorf("warned of %q", got)
	}
	generated := f.novel("", "generated")
	generated.GenerateName = "g-"
	_, err = f.novels.Create(t.Context(), generated)
	f.check(err, "")

	f.create("fixed", "fixed")
	_, err = f.patch("fixed", `{"spec":{"title":"other"}}`)
	f.check(err, `spec.title: Invalid value: "other": it is fixed`)
	_, err = f.patch("fixed", `{"spec":{"shelf":"a"}}`)
	f.check(err, "")

	f.create("kept", "kept")
	err = f.novels.Delete(t.Context(), "kept")
	f.check(err, "denied the request: it is kept")
	if !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	_, err = f.patch("kept", `{"spec":{"title":"free"}}`)
	f.check(err, "")
	f.check(f.novels.DeleteAll(t.Context()), "")
	for name, title := range map[string]string{"kept": "free", "fixed": "fixed", "warned": "warned"} {
		if got, _ := deleted.Load(name); got != title {
			t.Errorf("the deletion of %s was one of %v", name, got)
		}
	}
}

// An object that a new rule refuses keeps its labels and its end free.
func TestRealRatcheting(t *testing.T) {
	f := start(t)
	old := f.novel("old", "old")
	old.Finalizers = []string{"example.com/hold"}
	if _, err := f.novels.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	calls := 0
	webhooktest.Register(t, f.client, webhook.Validate(f.novels, webhook.Checks[novel]{
		Update: func(context.Context, *novel, *novel) error { calls++; return errors.New("a new rule") },
	}))
	_, err := f.patch("old", `{"metadata":{"labels":{"a":"b"}}}`)
	f.check(err, "")
	err = f.novels.Status().Patch(t.Context(), "old", types.MergePatchType, []byte(`{"status":{"replicas":1}}`))
	f.check(err, "")
	_, err = f.patch("old", `{"spec":{"title":"new"}}`)
	f.check(err, "a new rule")
	f.check(f.novels.Delete(t.Context(), "old"), "")
	_, err = f.patch("old", `{"spec":{"title":"new"}}`)
	f.check(err, "a new rule")
	_, err = f.patch("old", `{"metadata":{"finalizers":null}}`)
	f.check(err, "")
	if _, err := f.novels.Get(t.Context(), "old"); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

// A default of an own kind leaves unknown fields alone, and every request of apply and create
// gets it.
func TestRealDefault(t *testing.T) {
	f := start(t)
	webhooktest.Register(t, f.client, webhook.Default(f.novels, func(_ context.Context, n *novel) error {
		n.Spec.Shelf = cmp.Or(n.Spec.Shelf, "new")
		return nil
	}))
	loose := kube.For[unstructured.Unstructured](f.client, f.novels.Kind()).In(f.namespace)
	o := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"generateName": "n-"},
		"spec": map[string]any{
			"big": int64(9007199254740993), "items": []any{map[string]any{"u": "v"}}, "shelf": nil,
		},
	}}
	got, err := loose.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"big": int64(9007199254740993), "items": []any{map[string]any{"u": "v"}}, "shelf": "new",
	}
	if !reflect.DeepEqual(got.Object["spec"], want) {
		t.Errorf("got %v", got.Object["spec"])
	}
	applied, err := f.novels.Apply(t.Context(), f.novel("applied", "x"))
	if err != nil || applied.Spec.Shelf != "new" {
		t.Errorf("got %+v, %v", applied, err)
	}
}

// image is a view of three fields of a pod.
type image struct {
	kube.Object
	Spec struct {
		Containers []struct {
			Name  string `json:"name"`
			Image string `json:"image,omitempty"`
		} `json:"containers"`
	} `json:"spec"`
}

func (f *realFixture) pods() kube.Resource[corev1.Pod] {
	return kube.For[corev1.Pod](f.client).In(f.namespace)
}

func (f *realFixture) createPod(name string) (*corev1.Pod, error) {
	return f.pods().Create(f.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "a", Image: "nginx", TTY: true}, {Name: "b", Image: "redis", Command: []string{"sleep"}},
		}},
	})
}

func TestRealMutation(t *testing.T) {
	f := start(t)
	view := kube.ViewOf[image](f.client, kube.KindOf[corev1.Pod]()).In(f.namespace)
	webhooktest.Register(t, f.client, webhook.Mutate(view, func(_ context.Context, p *image) error {
		c := p.Spec.Containers
		for i := range c {
			if !strings.Contains(c[i].Image, "/") {
				c[i].Image = "mirror/" + c[i].Image
			}
		}
		if len(c) == 2 {
			sidecar := c[0]
			sidecar.Name = "sidecar"
			p.Spec.Containers = append(c[:1:1], sidecar, c[1])
		}
		if p.Labels == nil {
			p.Labels = map[string]string{"example.com/a.b": "c"}
		}
		return nil
	}))
	p, err := f.createPod("p")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range p.Spec.Containers {
		got = append(got, fmt.Sprintf("%s %s %t %s", c.Name, c.Image, c.TTY, c.Command))
	}
	want := []string{"a mirror/nginx true []", "sidecar mirror/nginx false []", "b mirror/redis false [sleep]"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A function that fails lets requests pass under Ignore, and no request under Fail.
func TestRealBadFunction(t *testing.T) {
	f := start(t)
	bad := func(ctx context.Context, p *corev1.Pod) error {
		switch p.Name {
		case "panics":
			panic("oh")
		case "outlives":
			<-ctx.Done()
			return ctx.Err()
		case "renames":
			p.Name = "other"
		}
		return nil
	}
	webhooktest.Register(t, f.client, webhook.Mutate(f.pods(), bad, webhook.Settings{Timeout: 1e9}))
	for _, name := range []string{"panics", "outlives", "renames"} {
		if p, err := f.createPod(name); err != nil || p.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	webhooktest.Register(t, f.client, webhook.Validate(f.novels, webhook.Checks[novel]{
		Create: func(ctx context.Context, n *novel) error {
			if n.Name == "outlives" {
				<-ctx.Done()
				return ctx.Err()
			}
			panic("oh")
		},
	}, webhook.Settings{Timeout: 1e9}))
	_, err := f.novels.Create(t.Context(), f.novel("panics", ""))
	f.check(err, "denied the request: the function to validate Novel panicked: oh")
	_, err = f.novels.Create(t.Context(), f.novel("outlives", ""))
	f.check(err, "the function to validate Novel did not return in time")
}

func TestRealSubresources(t *testing.T) {
	f := start(t)
	f.create("n", "x")
	if _, err := f.createPod("p"); err != nil {
		t.Fatal(err)
	}
	webhooktest.Register(t, f.client,
		webhook.Validate(f.novels, webhook.Checks[novel]{
			Update: func(context.Context, *novel, *novel) error {
				return errors.New("a subresource is not asked about here")
			},
		}),
		webhook.Validate(webhook.Sub[autoscalingv1.Scale](f.novels, "scale"), webhook.Checks[autoscalingv1.Scale]{
			Update: func(_ context.Context, before, after *autoscalingv1.Scale) error {
				if after.Spec.Replicas > before.Spec.Replicas+3 {
					return errors.New("not that many")
				}
				return nil
			},
		}),
		webhook.Validate(webhook.Sub[novel](f.novels, "status"), webhook.Checks[novel]{
			Update: func(_ context.Context, _, after *novel) error {
				if after.Status.Replicas > 5 {
					return webhook.Invalid("status.replicas", after.Status.Replicas, "there are none")
				}
				return nil
			},
		}),
		webhook.Validate(webhook.Sub[policyv1.Eviction](f.pods(), "eviction"), webhook.Checks[policyv1.Eviction]{
			Create: func(_ context.Context, e *policyv1.Eviction) error {
				if e.Name == "p" {
					return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("it has work to do"))
				}
				return nil
			},
		}),
		webhook.Validate(webhook.Sub[corev1.PodExecOptions](f.pods(), "exec"), webhook.Checks[corev1.PodExecOptions]{
			Connect: func(_ context.Context, o *corev1.PodExecOptions) error { return fmt.Errorf("no %s here", o.Command) },
		}),
	)
	scale := kube.Sub[autoscalingv1.Scale](f.novels, "scale")
	_, err := scale.Patch(t.Context(), "n", types.MergePatchType, []byte(`{"spec":{"replicas":9}}`))
	f.check(err, "denied the request: not that many")
	_, err = scale.Patch(t.Context(), "n", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
	f.check(err, "")
	err = f.novels.Status().Patch(t.Context(), "n", types.MergePatchType, []byte(`{"status":{"replicas":6}}`))
	f.check(err, `status.replicas: Invalid value: 6: there are none`)
	_, err = kube.Sub[policyv1.Eviction](f.pods(), "eviction").Create(t.Context(), "p",
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	f.check(err, "it has work to do")
	if !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	f.check(kubepod.Exec(t.Context(), f.pods(), "p", []string{"sh"}, kubepod.Streams{}), "no [sh] here")
}
