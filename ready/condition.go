package ready

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/internal/groups"
)

// conditioned holds the fields of an object that are judged with its conditions.
type conditioned struct {
	generation int64
	observed   int64 // status.observedGeneration, 0 if the kind counts none
	conditions []condition
	// needs is a condition that a controller sets on each object of the kind. Before it is
	// set, the object is not ready. It is empty for most kinds.
	needs string
	// silent says that a custom kind has conditions or an observed generation, and the object has no status.
	silent bool
}

type condition struct {
	kind, status, reason, message string
	observed                      int64 // the generation that it was set for, 0 if it does not say
}

// judge returns the state of an object of a kind that has no rule of its own.
func judge(o conditioned) State {
	if o.observed != 0 && o.observed < o.generation {
		return unseen()
	}
	// NamesAccepted and Established are of CustomResourceDefinition.
	if c, ok := o.find("NamesAccepted"); ok && c.status == "False" {
		return failed("%s", withMessage("NamesAccepted is False", c.message))
	}
	for _, kind := range []string{"Ready", "Available", "Established"} {
		c, ok := o.find(kind)
		switch {
		case !ok:
			continue
		case c.observed != 0 && c.observed < o.generation:
			return unseen()
		case c.status == "True":
			return ready()
		}
		return waiting("%s", withMessage(kind+" is "+cmp.Or(c.status, "Unknown"), cmp.Or(c.message, c.reason)))
	}
	switch {
	case o.needs != "":
		return waiting("its condition %s is not set", o.needs)
	case o.silent:
		return waiting("its controller has not written its status")
	}
	return ready()
}

// needed returns the condition that a controller sets on each object of a kind. The server
// empties the status of an object that is created, so the answer to the creation lacks the
// condition. The kinds with rules of their own are for views of them.
func needed(kind schema.GroupKind, service bool) string {
	switch kind {
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return "Established"
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		if service { // the server serves the other ones itself
			return "Available"
		}
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}:
		return "Available"
	case schema.GroupKind{Kind: "Node"}, schema.GroupKind{Kind: "Pod"}, schema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"}:
		return "Ready"
	}
	return ""
}

// reports reports whether the status of a Go type has conditions or an observed generation.
func reports(t reflect.Type) bool {
	f, ok := fieldOf(t, "Status")
	if !ok {
		return false
	}
	_, observed := fieldOf(f, "ObservedGeneration")
	_, conditions := fieldOf(f, "Conditions")
	return observed || conditions
}

// fieldOf returns the type of a field of a struct, or of a pointer to one.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	f, ok := t.FieldByName(name)
	return f.Type, ok
}

// kindOf returns the kind that an object names, by its TypeMeta or by a method GVK.
func kindOf(o any) (kind schema.GroupKind) {
	if t, ok := o.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		kind = t.GetObjectKind().GroupVersionKind().GroupKind()
	}
	if t, ok := o.(interface {
		GVK() schema.GroupVersionKind
	}); ok && kind.Kind == "" {
		kind = t.GVK().GroupKind()
	}
	return kind
}

func (o conditioned) find(kind string) (condition, bool) {
	for _, c := range o.conditions {
		if c.kind == kind {
			return c, true
		}
	}
	return condition{}, false
}

// conditionsOf reads status.conditions and status.observedGeneration of any Go type.
func conditionsOf(o any) conditioned {
	var found conditioned
	if m, ok := o.(metav1.Object); ok {
		found.generation = m.GetGeneration()
	}
	kind := kindOf(o)
	status := member(reflect.ValueOf(o), "Status")
	found.observed = generation(member(status, "ObservedGeneration"))
	// Some of Kubernetes' own kinds get a condition only if something is wrong.
	found.silent = (!status.IsValid() || status.IsZero()) && groups.IsCustom(kind.Group) && reports(reflect.TypeOf(o))
	list := member(status, "Conditions")
	if !list.IsValid() || list.Kind() != reflect.Slice {
		return found
	}
	found.needs = needed(kind, member(member(reflect.ValueOf(o), "Spec"), "Service").IsValid())
	for i := range list.Len() {
		c := list.Index(i)
		found.conditions = append(found.conditions, condition{
			kind: text(member(c, "Type")), status: text(member(c, "Status")),
			reason: text(member(c, "Reason")), message: text(member(c, "Message")),
			observed: generation(member(c, "ObservedGeneration")),
		})
	}
	return found
}

// member returns a field of a struct or of a pointer to one, the zero Value if there
// is none.
func member(v reflect.Value, name string) reflect.Value {
	for v.IsValid() && v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	at, ok := v.Type().FieldByName(name)
	if !ok {
		return reflect.Value{}
	}
	f, err := v.FieldByIndexErr(at.Index)
	if err != nil { // an embedded pointer is nil
		return reflect.Value{}
	}
	for f.IsValid() && f.Kind() == reflect.Pointer {
		f = f.Elem()
	}
	return f
}

func text(v reflect.Value) string {
	if !v.IsValid() || v.Kind() != reflect.String {
		return ""
	}
	return v.String()
}

// unread is the generation of a value that is not a number. It is older than each spec, so an
// object that has it is not taken for up to date.
const unread = -1

// generation returns an observed generation, 0 if there is none. Most kinds keep a whole
// number; some keep a text, a float, or a type of their own that is written as a text.
func generation(v reflect.Value) int64 {
	for v.IsValid() && (v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer) {
		v = v.Elem()
	}
	switch {
	case !v.IsValid() || v.IsZero():
		return 0
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(min(v.Uint(), math.MaxInt64))
	case v.CanFloat():
		if f := v.Float(); f == math.Trunc(f) && math.Abs(f) < 1<<62 {
			return int64(f)
		}
	case v.Kind() == reflect.String:
		return written(v.String())
	case v.CanAddr() && v.Addr().CanInterface():
		if s, ok := v.Addr().Interface().(fmt.Stringer); ok { // such as intstr.IntOrString
			return written(s.String())
		}
	}
	return unread
}

// written returns an observed generation that is kept as a text.
func written(text string) int64 {
	if text = strings.TrimSpace(text); text == "" {
		return 0
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return generation(reflect.ValueOf(f))
	}
	return unread
}

// generationAt returns the observed generation at a path in an unstructured object.
func generationAt(o map[string]any, path ...string) int64 {
	value, _, _ := unstructured.NestedFieldNoCopy(o, path...)
	return generation(reflect.ValueOf(value))
}

// untyped judges an unstructured object by the rule of its kind.
func untyped(u *unstructured.Unstructured) State {
	if typed := typeOf(u.GroupVersionKind().GroupKind()); typed != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
			return waiting("cannot read the object: %v", err)
		}
		return byKind(typed)
	}
	if kind := u.GroupVersionKind(); kind.Group == "admissionregistration.k8s.io" && isWebhooks(kind.Kind) {
		return untypedWebhooks(u)
	}
	found := conditioned{generation: u.GetGeneration()}
	found.observed = generationAt(u.Object, "status", "observedGeneration")
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		c, ok := item.(map[string]any)
		if !ok {
			continue
		}
		var one condition
		one.kind, _, _ = unstructured.NestedString(c, "type")
		one.status, _, _ = unstructured.NestedString(c, "status")
		one.reason, _, _ = unstructured.NestedString(c, "reason")
		one.message, _, _ = unstructured.NestedString(c, "message")
		one.observed = generationAt(c, "observedGeneration")
		found.conditions = append(found.conditions, one)
	}
	_, service, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "service")
	found.needs = needed(u.GroupVersionKind().GroupKind(), service)
	return judge(found)
}

// typeOf returns an object of the Go type of a kind that has a rule of its own, nil
// for any other kind.
func typeOf(kind schema.GroupKind) any {
	switch kind {
	case appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind():
		return new(appsv1.Deployment)
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind():
		return new(appsv1.StatefulSet)
	case appsv1.SchemeGroupVersion.WithKind("DaemonSet").GroupKind():
		return new(appsv1.DaemonSet)
	case appsv1.SchemeGroupVersion.WithKind("ReplicaSet").GroupKind():
		return new(appsv1.ReplicaSet)
	case batchv1.SchemeGroupVersion.WithKind("Job").GroupKind():
		return new(batchv1.Job)
	case corev1.SchemeGroupVersion.WithKind("ReplicationController").GroupKind():
		return new(corev1.ReplicationController)
	case corev1.SchemeGroupVersion.WithKind("Pod").GroupKind():
		return new(corev1.Pod)
	case corev1.SchemeGroupVersion.WithKind("Service").GroupKind():
		return new(corev1.Service)
	case corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim").GroupKind():
		return new(corev1.PersistentVolumeClaim)
	case corev1.SchemeGroupVersion.WithKind("PersistentVolume").GroupKind():
		return new(corev1.PersistentVolume)
	case corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind():
		return new(corev1.Namespace)
	}
	return nil
}
