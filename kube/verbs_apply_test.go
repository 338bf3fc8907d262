package kube_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownedBy returns the fields that a field manager owns by apply, as the server writes
// them, and the subresource that they belong to.
func ownedBy(t *testing.T, o metav1.Object, manager, subresource string) any {
	t.Helper()
	for _, m := range o.GetManagedFields() {
		if m.Manager == manager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == subresource {
			var fields any
			must(t, json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields))
			return fields
		}
	}
	t.Errorf("%s applied nothing: %+v", manager, o.GetManagedFields())
	return nil
}

func wantOwned(t *testing.T, o metav1.Object, manager, subresource, want string) {
	t.Helper()
	var fields any
	must(t, json.Unmarshal([]byte(want), &fields))
	if owned := ownedBy(t, o, manager, subresource); !reflect.DeepEqual(owned, fields) {
		text, _ := json.Marshal(owned)
		t.Errorf("%s owns %s, want %s", manager, text, want)
	}
}

// TestApplyOwns checks that an apply owns the fields that were set and no other.
func TestApplyOwns(t *testing.T) {
	s := start(t)
	deployments := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	zero := int32(0)
	intent := deployment("d")
	intent.Spec.Replicas = &zero
	intent.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "v",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	d := got(deployments.Apply(soon(t), intent))(t)
	wantOwned(t, d, "pintle-test", "", `{
		"f:metadata": {"f:labels": {"f:app": {}}},
		"f:spec": {
			"f:replicas": {},
			"f:selector": {},
			"f:template": {
				"f:metadata": {"f:labels": {"f:app": {}}},
				"f:spec": {
					"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}}},
					"f:volumes": {"k:{\"name\":\"v\"}": {".": {}, "f:name": {}, "f:emptyDir": {}}}
				}
			}
		}
	}`)
	if *d.Spec.Replicas != 0 || d.ResourceVersion == "" || d.Spec.Strategy.Type == "" {
		t.Errorf("the server's object should be returned, got %+v", d.Spec)
	}
	if intent.Namespace != "" || intent.Kind != "" || intent.UID != "" {
		t.Errorf("the caller's object was changed: %+v", intent.ObjectMeta)
	}
	// A second time, nothing changes.
	again := got(deployments.Apply(soon(t), intent))(t)
	if again.ResourceVersion != d.ResourceVersion {
		t.Error("the same apply made a new version")
	}
}

// TestApplyTakesBack removes the fields that an apply does not set any more. The fields
// of others stay.
func TestApplyTakesBack(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	got(maps.Apply(soon(t), configMap("m", "a", "1", "b", "2")))(t)
	got(maps.Patch(soon(t), "m", types.MergePatchType,
		[]byte(`{"data":{"c":"theirs"},"metadata":{"annotations":{"by":"hand"}}}`)))(t)
	m := got(maps.Apply(soon(t), configMap("m", "a", "1")))(t)
	if want := map[string]string{"a": "1", "c": "theirs"}; !reflect.DeepEqual(m.Data, want) ||
		m.Annotations["by"] != "hand" {
		t.Errorf("left are %v %v, want %v", m.Data, m.Annotations, want)
	}

	deployments := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	got(deployments.Apply(soon(t), deployment("d")))(t)
	byHand := `{"spec":{"paused":true,"template":{"spec":{"containers":[{"name":"c","image":"other","env":[{"name":"E","value":"v"}]}]}}}}`
	got(deployments.Patch(soon(t), "d", types.StrategicMergePatchType, []byte(byHand)))(t)
	d := got(deployments.Apply(soon(t), deployment("d")))(t)
	if c := d.Spec.Template.Spec.Containers[0]; !d.Spec.Paused || len(c.Env) != 1 || c.Image != "i" {
		t.Errorf("paused %t, container %+v", d.Spec.Paused, c)
	}
}

func TestApplyForce(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	got(maps.With(kube.WriteOptions{FieldManager: "other"}).Apply(soon(t), configMap("m", "k", "theirs")))(t)
	_, err := maps.With(kube.WriteOptions{NoForce: true}).Apply(soon(t), configMap("m", "k", "ours"))
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) ||
		!strings.Contains(err.Error(), `"other"`) {
		t.Errorf("without force: %v", err)
	}
	m := got(maps.Apply(soon(t), configMap("m", "k", "ours")))(t)
	if m.Data["k"] != "ours" {
		t.Errorf("with force: %v", m.Data)
	}
	wantOwned(t, m, "pintle-test", "", `{"f:data":{"f:k":{}}}`)
}

// TestApplyRead refuses an object that was read: it would own every field.
func TestApplyRead(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	m := got(maps.Apply(soon(t), configMap("m", "k", "v")))(t)
	calls := s.during(func() {
		_, err := maps.Apply(soon(t), m)
		if err == nil || !strings.Contains(err.Error(), "was read from the server") {
			t.Errorf("got error %v", err)
		}
	})
	if len(calls) != 0 {
		t.Errorf("want no request, got:%s", rows(calls))
	}
}

// TestApplyUID does not recreate a deleted object.
func TestApplyUID(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	intent := configMap("m", "k", "v")
	intent.UID = got(maps.Apply(soon(t), intent))(t).UID
	got(maps.Apply(soon(t), intent))(t)
	must(t, maps.Delete(soon(t), "m"))
	if _, err := maps.Apply(soon(t), intent); !apierrors.IsConflict(err) {
		t.Errorf("deleted: %v", err)
	}
	got(maps.Apply(soon(t), configMap("m", "k", "v")))(t)
	if _, err := maps.Apply(soon(t), intent); !apierrors.IsConflict(err) {
		t.Errorf("recreated: %v", err)
	}
}

func TestApplyStatus(t *testing.T) {
	s := start(t)
	books := kube.For[book](s.Client, installBooks(t, s, kube.Namespaced)).In(s.namespace)
	intent := newBook("b", "Dune")
	intent.Labels = map[string]string{"shelf": "1"}
	b := got(books.Apply(soon(t), intent))(t)
	wantOwned(t, b, "pintle-test", "", `{"f:metadata":{"f:labels":{"f:shelf":{}}},"f:spec":{"f:title":{}}}`)

	// ApplyStatus accepts an object that was read: only its status counts.
	b.Status.Lent, b.Spec.Title, b.Labels = true, "ignored", nil
	must(t, books.Status().Apply(soon(t), b))
	b = got(books.Get(soon(t), "b"))(t)
	if !b.Status.Lent || b.Spec.Title != "Dune" || b.Labels["shelf"] != "1" {
		t.Errorf("status apply made %+v", b)
	}
	wantOwned(t, b, "pintle-test", "status", `{"f:status":{"f:lent":{}}}`)

	// Apply does not touch the status. ApplyStatus removes the fields that it does not
	// set any more.
	got(books.Apply(soon(t), intent))(t)
	b.Status.Lent = false
	must(t, books.Status().Apply(soon(t), b))
	b = got(books.Get(soon(t), "b"))(t)
	wantOwned(t, b, "pintle-test", "status", `{"f:status":{"f:lent":{}}}`)
	if b.Status.Lent {
		t.Error("a status of zero values is not applied")
	}
	// The object is gone, and then is recreated.
	must(t, books.Delete(soon(t), "b"))
	if err := books.Status().Apply(soon(t), b); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		t.Errorf("status of a deleted object: %v", err)
	}
	got(books.Apply(soon(t), intent))(t)
	if err := books.Status().Apply(soon(t), b); !apierrors.IsConflict(err) {
		t.Errorf("status of a recreated object: %v", err)
	}

	pods := kube.For[corev1.Pod](s.Client).In(s.namespace)
	p := got(pods.Apply(soon(t), simplePod("p")))(t)
	p.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "example.com/ready",
		Status: corev1.ConditionTrue}}}
	must(t, pods.Status().Apply(soon(t), p))
	p = got(pods.Get(soon(t), "p"))(t)
	wantOwned(t, p, "pintle-test", "status",
		`{"f:status":{"f:conditions":{"k:{\"type\":\"example.com/ready\"}":{".":{},"f:type":{},"f:status":{}}}}}`)
}

// TestApplyPart applies a struct that names only the wanted fields.
func TestApplyPart(t *testing.T) {
	s := start(t)
	type replicas struct {
		kube.Object
		Spec struct {
			Replicas *int32 `json:"replicas,omitempty"`
		} `json:"spec"`
	}
	deployments := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	got(deployments.Apply(soon(t), deployment("d")))(t)
	parts := kube.ViewOf[replicas](s.Client,
		kube.KindOf[appsv1.Deployment]()).In(s.namespace).With(kube.WriteOptions{FieldManager: "scaler"})
	five := int32(5)
	part := &replicas{}
	part.Name, part.Spec.Replicas = "d", &five
	if r := got(parts.Apply(soon(t), part))(t); *r.Spec.Replicas != 5 {
		t.Errorf("applied %+v", r.Spec)
	}
	d := got(deployments.Get(soon(t), "d"))(t)
	wantOwned(t, d, "scaler", "", `{"f:spec":{"f:replicas":{}}}`)
	if len(d.Spec.Template.Spec.Containers) != 1 {
		t.Errorf("the rest is %+v", d.Spec.Template)
	}
}
