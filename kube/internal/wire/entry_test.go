package wire

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSameSpec changes one field after another, in protobuf and in JSON.
func TestSameSpec(t *testing.T) {
	deployment := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		three := int32(3)
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "d", UID: "u", ResourceVersion: "7", Generation: 1,
				Labels: map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"x": "y"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "o", UID: "ou"}},
				ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}},
			},
			Spec:   appsv1.DeploymentSpec{Replicas: &three},
			Status: appsv1.DeploymentStatus{Replicas: 1},
		}
		if change != nil {
			change(d)
		}
		return d
	}
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		same   bool
	}{
		"nothing":         {nil, true},
		"status":          {func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 3 }, true},
		"no status":       {func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }, true},
		"resourceVersion": {func(d *appsv1.Deployment) { d.ResourceVersion = "12345" }, true},
		"generation":      {func(d *appsv1.Deployment) { d.Generation = 2 }, true},
		"managed fields":  {func(d *appsv1.Deployment) { d.ManagedFields = nil }, true},
		"a label":         {func(d *appsv1.Deployment) { d.Labels["a"] = "2" }, false},
		"no label":        {func(d *appsv1.Deployment) { delete(d.Labels, "b") }, false},
		"no labels":       {func(d *appsv1.Deployment) { d.Labels = nil }, false},
		"an annotation":   {func(d *appsv1.Deployment) { d.Annotations["z"] = "" }, false},
		"an owner":        {func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "other" }, false},
		"no owner":        {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, false},
		"a finalizer":     {func(d *appsv1.Deployment) { d.Finalizers = []string{"f"} }, false},
		"deletion":        {func(d *appsv1.Deployment) { now := metav1.Now(); d.DeletionTimestamp = &now }, false},
		"a number":        {func(d *appsv1.Deployment) { *d.Spec.Replicas = 4 }, false},
		"no number":       {func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, false},
		"a field more":    {func(d *appsv1.Deployment) { d.Spec.Paused = true }, false},
	} {
		for _, proto := range []bool{true, false} {
			c := mustCodec[appsv1.Deployment](t, proto)
			entry := func(d *appsv1.Deployment) *Entry {
				rec := NewRecorder(c)
				raw, err := json.Marshal(d)
				if proto {
					raw, err = d.Marshal()
				}
				if err != nil {
					t.Fatal(err)
				}
				r, err := rec.Record(Raw{raw, proto})
				if err != nil {
					t.Fatal(err)
				}
				return NewEntry(r)
			}
			a, b := entry(deployment(nil)), entry(deployment(tc.change))
			if c.SameSpec(a, b) != tc.same || c.SameSpec(b, a) != tc.same {
				t.Errorf("%s changes (protobuf: %t): the same is %t", name, proto, !tc.same)
			}
		}
	}
}

// Numbers and names of members that stand side by side are kept apart.
func TestSameSpecKeepsMembersApart(t *testing.T) {
	type odd struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		A                 int    `json:"a"`
		B                 int    `json:"b,omitempty"`
		Digit             int    `json:"2b,omitempty"`
		C                 string `json:"c,omitempty"`
	}
	c := mustCodec[odd](t, false)
	bodies := []string{`"a":1,"2b":3`, `"a":12,"b":3`, `"a":1,"b":3`, `"c":"","a":1`, `"a":1`}
	for i, a := range bodies {
		for j, b := range bodies {
			entry := func(body string) *Entry {
				rec, err := NewRecorder(c).Record(Raw{Bytes: []byte(`{"metadata":{"name":"n","uid":"u"},` + body + `}`)})
				if err != nil {
					t.Fatal(err)
				}
				return NewEntry(rec)
			}
			if same := c.SameSpec(entry(a), entry(b)); same != (i == j) {
				t.Errorf("%s and %s: the same is %t", a, b, same)
			}
		}
	}
}
