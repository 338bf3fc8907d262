package kube_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A change that a test makes tells the same as one that an informer yields.
func TestNewChange(t *testing.T) {
	pod := func(set func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "p", UID: "1", ResourceVersion: "5", Generation: 1,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "2"}},
		}}
		if set != nil {
			set(p)
		}
		return p
	}
	running := pod(func(p *corev1.Pod) { p.Status.Phase, p.ResourceVersion = corev1.PodRunning, "6" })
	now := metav1.Now()
	ending := pod(func(p *corev1.Pod) { p.DeletionTimestamp, p.Generation = &now, 2 })
	for name, test := range map[string]struct {
		was, is       *corev1.Pod
		want          kube.WatchEventType
		newGeneration bool
		deleting      bool
		began         bool
		fields        []string
	}{
		"added":          {nil, pod(nil), kube.Added, true, false, false, nil},
		"status":         {pod(nil), running, kube.Modified, false, false, false, []string{"status.phase"}},
		"deletion began": {pod(nil), ending, kube.Modified, true, true, true, []string{"metadata.deletionTimestamp"}},
		"deleted":        {ending, nil, kube.Deleted, true, true, true, nil},
	} {
		c, err := kube.NewChange(test.was, test.is)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		fields, err := c.Fields()
		if c.Type != test.want || c.Key != (kube.Key{Namespace: "a", Name: "p"}) || c.Kind() != "Pod" || c.UID() != "1" ||
			c.NewGeneration() != test.newGeneration || c.Deleting() != test.deleting || c.DeletionBegan() != test.began {
			t.Errorf("%s: %+v of kind %s", name, c, c.Kind())
		}
		if err != nil || !slices.Equal(fields, test.fields) {
			t.Errorf("%s: fields %q, error %v, want %q", name, fields, err, test.fields)
		}
		for o := range c.Owners() {
			if o.UID != "2" || o.GVK.Kind != "ReplicaSet" {
				t.Errorf("%s: owner %+v", name, o)
			}
		}
		was, is, err := kube.Decode[corev1.Pod](c)
		if err != nil || (was == nil) != (test.was == nil) || is == nil || is.Name != "p" {
			t.Errorf("%s: decoded %v and %v: %v", name, was, is, err)
		}
	}
	view := &podView{}
	view.Name = "v"
	c, err := kube.NewChange(nil, view, kube.KindOf[corev1.Pod]())
	if err != nil || c.Kind() != "Pod" || c.Key.Name != "v" {
		t.Errorf("of a view: %+v, %v", c, err)
	}
	if _, err := c.Managers(t.Context(), "spec"); err == nil || !strings.Contains(err.Error(), "without a server") {
		t.Errorf("managers of a change without a server: %v", err)
	}
	loose := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "u"}}}
	if c, err := kube.NewChange(nil, loose, kindOf("example.com", "Book")); err != nil || c.Key.Name != "u" || c.Kind() != "Book" {
		t.Errorf("of an unstructured object: %+v, %v", c, err)
	}
	other := pod(func(p *corev1.Pod) { p.UID = "3" })
	for name, err := range map[string]error{
		"of nothing":     second(kube.NewChange[corev1.Pod](nil, nil)),
		"of two objects": second(kube.NewChange(pod(nil), other)),
		"of no kind":     second(kube.NewChange(nil, &podView{})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := second(kube.NewChange(nil, &podView{})); !errors.Is(err, kube.ErrKind) {
		t.Errorf("of no kind: %v", err)
	}
}
