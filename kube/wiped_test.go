package kube_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// wipe removes the managed fields of an object, as people and some webhooks do.
const wipe = `{"metadata":{"managedFields":[{}]}}`

// Somebody may remove the managed fields of an object. Ensure still removes the fields
// that it applied before and no longer wants. Fields of others stay.
func TestEnsureAfterManagedFieldsWereRemoved(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	mine := maps.With(kube.WriteOptions{FieldManager: "mine"})
	somebody := s.connect(t, s.cluster.Config())
	others := kube.For[corev1.ConfigMap](somebody).In(s.namespace).With(kube.WriteOptions{FieldManager: "somebody"})
	store := kube.StoreOf(t.Context(), maps)
	must(t, store.Sync(soon(t)))
	for name, by := range map[string]kube.Resource[corev1.ConfigMap]{"another-client": others, "this-client": maps} {
		t.Run(name, func(t *testing.T) {
			wanted := func(data ...string) *corev1.ConfigMap {
				o := configMap(name, data...)
				o.Labels = map[string]string{"app": "web"}
				return o
			}
			got(mine.Ensure(soon(t), wanted("a", "1", "b", "2", "c", "3")))(t)
			got(others.Patch(soon(t), name, types.MergePatchType,
				[]byte(`{"data":{"theirs":"4"},"metadata":{"annotations":{"theirs":"yes"}}}`)))(t)
			got(by.Patch(soon(t), name, types.MergePatchType, []byte(wipe)))(t)
			o := got(mine.Ensure(soon(t), wanted("a", "1", "b", "2")))(t)
			if len(o.Data) != 3 || o.Data["c"] != "" || o.Data["theirs"] != "4" || o.Annotations["theirs"] != "yes" {
				t.Errorf("the data is %v, the annotations are %v", o.Data, o.Annotations)
			}
			// What it still wanted then, it may drop later.
			o = got(mine.Ensure(soon(t), configMap(name, "a", "1")))(t)
			if len(o.Data) != 2 || len(o.Labels) > 0 || o.Data["theirs"] != "4" {
				t.Errorf("the data is %v, the labels are %v", o.Data, o.Labels)
			}
			if calls := s.during(func() { got(mine.Ensure(soon(t), configMap(name, "a", "1")))(t) }); len(calls) > 0 {
				t.Errorf("the same again makes requests: %s", rows(calls))
			}
		})
	}
	if log := s.logged(); strings.Contains(log, "managed fields") {
		t.Errorf("the log says:\n%s", log)
	}
}

// An item of a list goes with the defaults in it. An autoscaler's replicas and a sidecar
// stay, and the order in which spec and status are applied after the wipe does not matter.
func TestEnsureOfAWorkloadAfterManagedFieldsWereRemoved(t *testing.T) {
	s := start(t)
	all := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	mine := all.With(kube.WriteOptions{FieldManager: "mine"})
	others := kube.For[appsv1.Deployment](s.connect(t, s.cluster.Config())).In(s.namespace)
	filled(t, all.ReadOnly())
	for _, first := range []string{"spec", "status"} {
		t.Run(first, func(t *testing.T) {
			wanted := func(containers ...string) *appsv1.Deployment {
				d := webDeployment(first)
				d.Status = formerStatus()
				pod := &d.Spec.Template.Spec
				pod.Containers = nil
				for _, c := range containers {
					pod.Containers = append(pod.Containers, corev1.Container{Name: c, Image: "i",
						Ports: []corev1.ContainerPort{{ContainerPort: int32(len(c))}}})
				}
				return d
			}
			got(mine.Ensure(soon(t), wanted("web", "extra")))(t)
			must(t, mine.Status().Ensure(soon(t), wanted("web", "extra")))
			got(others.Patch(soon(t), first, types.StrategicMergePatchType, []byte(
				`{"spec":{"replicas":7,"template":{"spec":{"containers":[{"name":"sidecar","image":"s"}]}}}}`)))(t)
			got(others.Patch(soon(t), first, types.MergePatchType, []byte(wipe)))(t)
			less := wanted("web")
			less.Status.Conditions = less.Status.Conditions[1:]
			if first == "status" {
				must(t, mine.Status().Ensure(soon(t), less))
			}
			got(mine.Ensure(soon(t), less))(t)
			must(t, mine.Status().Ensure(soon(t), less))
			is := got(all.Get(soon(t), first))(t)
			var containers []string
			for _, c := range is.Spec.Template.Spec.Containers {
				containers = append(containers, c.Name)
			}
			if *is.Spec.Replicas != 7 || len(containers) != 2 || strings.Contains(strings.Join(containers, " "), "extra") {
				t.Errorf("there are %d replicas and the containers %v", *is.Spec.Replicas, containers)
			}
			if conditions(is) != "Ready" {
				t.Errorf("the conditions are %q", conditions(is))
			}
		})
	}
}

// After a restart nobody knows what was applied before the managed fields were removed. So
// no field is removed, and the log says once that fields may stay.
func TestEnsureAfterARestartWithoutManagedFields(t *testing.T) {
	s := start(t)
	options := kube.WriteOptions{FieldManager: "mine"}
	before := kube.For[corev1.ConfigMap](s.Client).In(s.namespace).With(options)
	for name, prepare := range map[string]func(kube.Resource[corev1.ConfigMap]){
		"with-a-store":    func(r kube.Resource[corev1.ConfigMap]) { filled(t, r.ReadOnly()) },
		"without-a-store": func(kube.Resource[corev1.ConfigMap]) {},
	} {
		t.Run(name, func(t *testing.T) {
			got(before.Ensure(soon(t), configMap(name, "a", "1", "b", "2")))(t)
			got(before.Patch(soon(t), name, types.MergePatchType, []byte(wipe)))(t)
			after := kube.For[corev1.ConfigMap](s.connect(t, s.cluster.Config())).In(s.namespace).With(options)
			prepare(after)
			for range 2 {
				if o := got(after.Ensure(soon(t), configMap(name, "a", "1")))(t); len(o.Data) != 2 {
					t.Errorf("the data is %v", o.Data)
				}
			}
			n := 0
			for line := range strings.Lines(s.logged()) {
				if strings.Contains(line, "managed fields") && strings.Contains(line, s.namespace+"/"+name) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("the log says %d times that fields may stay:\n%s", n, s.logged())
			}
		})
	}
}

// A field may not be removable: without it the object is not valid. Then it stays, the log
// says so, and Ensure goes on to apply.
func TestEnsureKeepsAFieldThatCannotGo(t *testing.T) {
	s := start(t)
	all := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	mine := all.With(kube.WriteOptions{FieldManager: "mine"})
	filled(t, all.ReadOnly())
	probed := webDeployment("d")
	probed.Spec.Template.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	got(mine.Ensure(soon(t), probed))(t)
	others := kube.For[appsv1.Deployment](s.connect(t, s.cluster.Config())).In(s.namespace)
	got(others.Patch(soon(t), "d", types.MergePatchType, []byte(wipe)))(t)
	for _, image := range []string{"i", "j", "k"} {
		d := webDeployment("d")
		d.Spec.Template.Spec.Containers[0].Image = image
		got(mine.Ensure(soon(t), d))(t)
		is := got(all.Get(soon(t), "d"))(t)
		if c := is.Spec.Template.Spec.Containers[0]; c.Image != image {
			t.Errorf("the container is %+v", c)
		}
	}
	if log := s.logged(); strings.Count(log, "managed fields") != 1 || !strings.Contains(log, "livenessProbe") {
		t.Errorf("the log says:\n%s", log)
	}
}

// If the server refuses the patch that the restoration needs, a status is applied all the
// same, and the log says that fields may stay.
func TestEnsureStatusAfterManagedFieldsWereRemovedForGood(t *testing.T) {
	p := startStatusPredecessor(t)
	mine := p.deployments.With(kube.WriteOptions{FieldManager: "mine"})
	filled(t, p.deployments.ReadOnly())
	d := webDeployment("d")
	d.Status = formerStatus()
	got(mine.Ensure(soon(t), d))(t)
	must(t, mine.Status().Ensure(soon(t), d))
	got(p.deployments.Patch(soon(t), "d", types.MergePatchType, []byte(wipe)))(t)
	p.denies(t)
	d.Status.Conditions = d.Status.Conditions[1:]
	d.Status.ObservedGeneration = 2
	must(t, mine.Status().Ensure(soon(t), d))
	if is := got(p.deployments.Get(soon(t), "d"))(t); conditions(is) != "Old Ready" || is.Status.ObservedGeneration != 2 {
		t.Errorf("the status is %+v", is.Status)
	}
	if log := p.logged(); strings.Count(log, "the managed fields") != 1 || !strings.Contains(log, "no updates") {
		t.Errorf("the log says:\n%s", log)
	}
}
