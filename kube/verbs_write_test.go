package kube_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/kube"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestCreate(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	var a *corev1.ConfigMap
	calls := s.during(func() { a = got(maps.Create(soon(t), configMap("a", "k", "v")))(t) })
	if a.Namespace != s.namespace || a.ResourceVersion == "" || a.Data["k"] != "v" {
		t.Errorf("created %+v", a)
	}
	if len(calls) != 1 || calls[0].sent != "application/vnd.kubernetes.protobuf" ||
		calls[0].answered != "application/vnd.kubernetes.protobuf" {
		t.Errorf("want one exchange in protobuf, got %+v", calls)
	}
	if len(a.ManagedFields) != 1 || a.ManagedFields[0].Manager != "pintle-test" {
		t.Errorf("managed by %+v", a.ManagedFields)
	}
	_, err := maps.Create(soon(t), configMap("a"))
	if !apierrors.IsAlreadyExists(err) || !strings.HasPrefix(err.Error(), "create ConfigMap "+s.namespace+"/a: ") {
		t.Errorf("got error %v", err)
	}
	// The server makes up the name.
	gen := configMap("")
	gen.GenerateName = "gen-"
	made := got(maps.Create(soon(t), gen))(t)
	if !strings.HasPrefix(made.Name, "gen-") || made.Name == "gen-" {
		t.Errorf("generated the name %q", made.Name)
	}
	if gen.Name != "" {
		t.Errorf("the caller's object got the name %q", gen.Name)
	}
	// The object's namespace is used instead of the handle's.
	elsewhere := configMap("b")
	elsewhere.Namespace = s.namespace
	got(kube.For[corev1.ConfigMap](s.Client).Create(soon(t), elsewhere))(t)
}

// TestCreateReview creates an object that the server answers and does not store, and that
// has no name.
func TestCreateReview(t *testing.T) {
	s := start(t)
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"},
	}}
	answer := got(kube.For[authorizationv1.SelfSubjectAccessReview](s.Client).Create(soon(t), review))(t)
	if !answer.Status.Allowed {
		t.Errorf("answered %+v", answer.Status)
	}
}

func TestUpdate(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	old := got(maps.Create(soon(t), configMap("a", "k", "1")))(t)
	changed := old.DeepCopy()
	changed.Data["k"] = "2"
	now := got(maps.Update(soon(t), changed))(t)
	if now.Data["k"] != "2" || now.ResourceVersion == old.ResourceVersion {
		t.Errorf("updated to %+v", now)
	}
	old.Data["k"] = "3"
	_, err := maps.Update(soon(t), old)
	if !apierrors.IsConflict(err) || !strings.HasPrefix(err.Error(), "update ConfigMap "+s.namespace+"/a: ") {
		t.Errorf("got error %v", err)
	}
	if got(maps.Get(soon(t), "a"))(t).Data["k"] != "2" {
		t.Error("a conflicting update was executed")
	}
	old.Name = "none"
	old.UID = ""
	if _, err := maps.Update(soon(t), old); !apierrors.IsNotFound(err) {
		t.Errorf("got error %v", err)
	}
}

func TestUpdateStatus(t *testing.T) {
	s := start(t)
	books := kube.For[book](s.Client, installBooks(t, s, kube.Namespaced)).In(s.namespace)
	b := got(books.Create(soon(t), newBook("a", "Dune")))(t)
	b.Status.Lent, b.Spec.Title = true, "not by this way"
	must(t, books.Status().Update(soon(t), b))
	b = got(books.Get(soon(t), "a"))(t)
	if !b.Status.Lent || b.Spec.Title != "Dune" {
		t.Errorf("status update made %+v", b)
	}
	b.Status.Lent, b.Spec.Title = false, "Emma"
	b = got(books.Update(soon(t), b))(t)
	if !b.Status.Lent || b.Spec.Title != "Emma" {
		t.Errorf("update made %+v", b)
	}
	pods := kube.For[corev1.Pod](s.Client).In(s.namespace)
	p := got(pods.Create(soon(t), simplePod("p")))(t)
	p.Status.Phase = corev1.PodRunning
	must(t, pods.Status().Update(soon(t), p))
	if p = got(pods.Get(soon(t), "p"))(t); p.Status.Phase != corev1.PodRunning {
		t.Errorf("status is %+v", p.Status)
	}
	// The caller's object keeps its version, so it is behind after an update.
	b = got(books.Get(soon(t), "a"))(t)
	b.Status.Lent = false
	must(t, books.Status().Update(soon(t), b))
	if err := books.Status().Update(soon(t), b); !apierrors.IsConflict(err) {
		t.Errorf("a second update of the same object: %v", err)
	}
}

// Modify and Patch of the status leave the rest of the object alone, and ask for no full
// answer.
func TestModifyAndPatchStatus(t *testing.T) {
	s := start(t)
	books := kube.For[book](s.Client, installBooks(t, s, kube.Namespaced)).In(s.namespace)
	pods := kube.For[corev1.Pod](s.Client).In(s.namespace)
	got(books.Create(soon(t), newBook("a", "Dune")))(t)
	got(pods.Create(soon(t), simplePod("p")))(t)
	lend := func(b *book) error {
		b.Status.Lent, b.Spec.Title = true, "not by this way"
		b.Labels = map[string]string{"not": "by-this-way"}
		return nil
	}
	is := func(lent bool, when string) {
		t.Helper()
		if b := got(books.Get(soon(t), "a"))(t); b.Status.Lent != lent || b.Spec.Title != "Dune" || len(b.Labels) > 0 {
			t.Errorf("%s: the book is %+v", when, b)
		}
	}
	calls := s.during(func() { must(t, books.Status().Modify(soon(t), "a", lend)) })
	if len(calls) != 2 {
		t.Errorf("a read and a write took %d requests: %s", len(calls), rows(calls))
	}
	is(true, "modified")
	calls = s.during(func() { must(t, books.Status().Modify(soon(t), "a", lend)) })
	if len(calls) != 1 {
		t.Errorf("without a change of the status %d requests, want a read: %s", len(calls), rows(calls))
	}
	must(t, books.Status().Patch(soon(t), "a", types.MergePatchType, []byte(`{"status":{"lent":false}}`)))
	is(false, "patched")
	must(t, pods.Status().Modify(soon(t), "p", func(p *corev1.Pod) error {
		p.Status.Phase = corev1.PodRunning
		p.Annotations = map[string]string{"not": "by-this-way"}
		return nil
	}))
	if p := got(pods.Get(soon(t), "p"))(t); p.Status.Phase != corev1.PodRunning || len(p.Annotations) > 0 {
		t.Errorf("the pod is %+v", p)
	}
	failed := errors.New("failed")
	if err := books.Status().Modify(soon(t), "a", func(*book) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the error of a change is %v", err)
	}
	if err := books.Status().Modify(soon(t), "none", lend); !apierrors.IsNotFound(err) {
		t.Errorf("of an object that does not exist: %v", err)
	}
	if err := books.Status().Patch(soon(t), "none", types.MergePatchType, []byte(`{}`)); !apierrors.IsNotFound(err) {
		t.Errorf("a patch of an object that does not exist: %v", err)
	}
}

func TestPatch(t *testing.T) {
	s := start(t)
	kind := installBooks(t, s, kube.Namespaced)
	deployments := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	books := kube.For[book](s.Client, kind).In(s.namespace)
	got(deployments.Create(soon(t), deployment("d")))(t)
	got(books.Create(soon(t), newBook("b", "Dune")))(t)

	image := func(d *appsv1.Deployment) string { return d.Spec.Template.Spec.Containers[0].Image }
	for name, c := range map[string]struct {
		kind  types.PatchType
		patch string
		want  string
	}{
		"json": {types.JSONPatchType, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"j"}]`,
			"j"},
		"strategic": {types.StrategicMergePatchType,
			`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"s"}]}}}}`, "s"},
		"merge": {types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"m"}]}}}}`, "m"},
		"apply": {types.ApplyYAMLPatchType, `
apiVersion: apps/v1
kind: Deployment
spec: {template: {spec: {containers: [{name: c, image: a}]}}}`, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			d := got(deployments.Patch(soon(t), "d", c.kind, []byte(c.patch)))(t)
			if image(d) != c.want {
				t.Errorf("the image is %q, want %q", image(d), c.want)
			}
		})
	}
	b := got(books.Patch(soon(t), "b", types.MergePatchType, []byte(`{"spec":{"pages":7}}`)))(t)
	if b.Spec.Title != "Dune" || b.Spec.Pages == nil || *b.Spec.Pages != 7 {
		t.Errorf("merge patch made %+v", b.Spec)
	}
	_, err := books.Patch(soon(t), "b", types.StrategicMergePatchType, []byte(`{}`))
	if !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("strategic patch of a custom resource: %v", err)
	}
	_, err = books.Patch(soon(t), "b", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/title","value":"Emma"}]`))
	if !apierrors.IsInvalid(err) {
		t.Errorf("failed JSON patch test: %v", err)
	}
	_, err = books.Patch(soon(t), "none", types.MergePatchType, []byte(`{}`))
	if !apierrors.IsNotFound(err) {
		t.Errorf("patch of nothing: %v", err)
	}
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

func TestDelete(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	a := got(maps.Create(soon(t), configMap("a")))(t)
	other := types.UID("00000000-0000-0000-0000-000000000000")
	err := maps.Delete(soon(t), "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if !apierrors.IsConflict(err) {
		t.Errorf("another uid: %v", err)
	}
	stale := "1"
	err = maps.Delete(soon(t), "a",
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &stale}})
	if !apierrors.IsConflict(err) {
		t.Errorf("another resource version: %v", err)
	}
	must(t, maps.With(kube.WriteOptions{DryRun: true}).Delete(soon(t), "a"))
	got(maps.Get(soon(t), "a"))(t)
	must(t, maps.Delete(soon(t), "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}}))
	if _, err := maps.Get(soon(t), "a"); !apierrors.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
	err = maps.Delete(soon(t), "a")
	if !apierrors.IsNotFound(err) || !strings.HasPrefix(err.Error(), "delete ConfigMap "+s.namespace+"/a: ") {
		t.Errorf("deleted twice: %v", err)
	}

	// A finalizer holds the object, and orphaning is a finalizer.
	deployments := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	got(deployments.Create(soon(t), deployment("d")))(t)
	orphan := metav1.DeletePropagationOrphan
	must(t, deployments.Delete(soon(t), "d", metav1.DeleteOptions{PropagationPolicy: &orphan}))
	d := got(deployments.Get(soon(t), "d"))(t)
	if d.DeletionTimestamp == nil || len(d.Finalizers) != 1 || d.Finalizers[0] != metav1.FinalizerOrphanDependents {
		t.Errorf("deleted by orphaning: %s, finalizers %q", d.DeletionTimestamp, d.Finalizers)
	}
	d.Finalizers = nil
	got(deployments.Update(soon(t), d))(t)
	if _, err := deployments.Get(soon(t), "d"); !apierrors.IsNotFound(err) {
		t.Errorf("without its finalizer: %v", err)
	}
}

func TestDeleteAll(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	for _, n := range []string{"a", "b", "c"} {
		cm := configMap(n)
		cm.Labels = map[string]string{"vowel": map[bool]string{true: "yes", false: "no"}[n == "a"]}
		got(maps.Create(soon(t), cm))(t)
	}
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	must(t, maps.Labeled("vowel").DeleteAll(soon(t), dry))
	must(t, maps.With(kube.WriteOptions{DryRun: true}).Labeled("vowel").DeleteAll(soon(t)))
	must(t, maps.Labeled("vowel=no").DeleteAll(soon(t)))
	if left := names(t, maps.Labeled("vowel").List(soon(t)), nameOf); len(left) != 1 || left[0] != "a" {
		t.Errorf("left are %q", left)
	}
	calls := s.during(func() {
		if err := kube.For[corev1.ConfigMap](s.Client).DeleteAll(soon(t)); !errors.Is(err, kube.ErrScope) {
			t.Errorf("in all namespaces: %v", err)
		}
	})
	if len(calls) != 0 {
		t.Errorf("want no request, got:%s", rows(calls))
	}
	// Cluster-scoped objects are deleted by selector alone.
	books := kube.For[book](s.Client, installBooks(t, s, kube.ClusterScoped))
	for _, n := range []string{"a", "b"} {
		b := newBook(n, n)
		b.Labels = map[string]string{"is": n}
		got(books.Create(soon(t), b))(t)
	}
	must(t, books.Labeled("is=a").DeleteAll(soon(t)))
	if left := names(t, books.List(soon(t)), func(b *book) string { return b.Name }); len(left) != 1 || left[0] != "b" {
		t.Errorf("left are %q", left)
	}
}

func TestDryRun(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	dry := maps.With(kube.WriteOptions{DryRun: true})
	made := got(dry.Create(soon(t), configMap("a", "k", "v")))(t)
	if made.UID == "" {
		t.Error("a dry run returns the object as it would be")
	}
	if _, err := maps.Get(soon(t), "a"); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run created it: %v", err)
	}
	cm := got(maps.Create(soon(t), configMap("a", "k", "v")))(t)
	cm.Data["k"] = "w"
	if got(dry.Update(soon(t), cm))(t).Data["k"] != "w" ||
		got(dry.Patch(soon(t), "a", types.MergePatchType, []byte(`{"data":{"k":"w"}}`)))(t).Data["k"] != "w" ||
		got(dry.Apply(soon(t), configMap("a", "k", "w")))(t).Data["k"] != "w" {
		t.Error("a dry run returns the object as it would be")
	}
	if v := got(maps.Get(soon(t), "a"))(t).Data["k"]; v != "v" {
		t.Errorf("a dry run wrote %q", v)
	}
}

func TestFieldValidation(t *testing.T) {
	s := start(t)
	kind := installBooks(t, s, kube.Namespaced)
	books := kube.For[book](s.Client, kind).In(s.namespace)
	got(books.Create(soon(t), newBook("b", "Dune")))(t)
	unknown := []byte(`{"spec":{"publisher":"Chilton"}}`)
	patch := func(validation string) error {
		_, err := books.With(kube.WriteOptions{FieldValidation: validation}).Patch(soon(t), "b", types.MergePatchType,
			unknown)
		return err
	}
	if err := patch("Strict"); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), `unknown field "spec.publisher"`) {
		t.Errorf("strict: %v", err)
	}
	must(t, patch("Ignore"))
	if strings.Contains(s.logged(), "publisher") {
		t.Errorf("logged though ignored: %s", s.logged())
	}
	// The server's warnings are logged, each once.
	for _, v := range []string{"Warn", "", "Warn"} {
		must(t, patch(v))
	}
	if n := strings.Count(s.logged(), `unknown field`); n != 1 {
		t.Errorf("logged %d times: %s", n, s.logged())
	}
	for _, want := range []string{"level=WARN", "verb=patch", "kind=Book", "object=" + s.namespace + "/b"} {
		if !strings.Contains(s.logged(), want) {
			t.Errorf("the log lacks %s: %s", want, s.logged())
		}
	}
}
