package kube_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/internal/glance"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// A look at the store tells that an Ensure would change nothing, and never sends a request.
func TestGlance(t *testing.T) {
	s := start(t)
	for name, options := range map[string]kube.WriteOptions{
		"plain":    {},
		"options":  {FieldManager: "gl&ance é", FieldValidation: "Strict"},
		"no-force": {NoForce: true},
	} {
		t.Run(name, func(t *testing.T) {
			maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace).With(options)
			filled(t, maps.ReadOnly())
			want := func(value string) *corev1.ConfigMap {
				o := configMap(name, "a", value)
				o.Namespace = s.namespace
				return o
			}
			var seen glance.Object
			look := func(o *corev1.ConfigMap) (err error) {
				var is *corev1.ConfigMap
				if n := len(s.during(func() { is, err = maps.Ensure(glance.Only(soon(t), &seen), o) })); n != 0 || is != nil {
					t.Errorf("a look sent %d requests and returned %v", n, is)
				}
				return err
			}
			unknown := func(when string, o *corev1.ConfigMap) {
				t.Helper()
				if err := look(o); !errors.Is(err, glance.ErrUnknown) {
					t.Errorf("%s: got %v", when, err)
				}
			}
			known := func(when string) *corev1.ConfigMap {
				t.Helper()
				kubetest.Eventually(t, "the store shows the object "+when, func() error { return look(want("1")) })
				is := new(corev1.ConfigMap)
				must(t, seen.Decode(is))
				return is
			}
			unknown("before there is an object", want("1"))
			o := got(maps.Ensure(soon(t), want("1")))(t)
			unknown("with another uid", want("1"))
			seen.UID = o.UID
			if is := known("after the Ensure"); is.ResourceVersion != o.ResourceVersion || is.Data["a"] != "1" {
				t.Errorf("decoded %v", is)
			}
			unknown("another intent", want("2"))
			read := want("1")
			read.ResourceVersion = "1"
			unknown("an object that was read", read)
			got(maps.Modify(soon(t), name, func(o *corev1.ConfigMap) error { o.Data["theirs"] = "3"; return nil }))(t)
			got(maps.Ensure(soon(t), want("1")))(t) // it compares the values
			if is := known("after a change of another field"); is.Data["theirs"] != "3" {
				t.Errorf("decoded %v", is)
			}
			got(maps.Modify(soon(t), name, func(o *corev1.ConfigMap) error { o.Data["a"] = "9"; return nil }))(t)
			unknown("after a change of the field", want("1"))
			must(t, maps.Delete(soon(t), name))
			unknown("after the deletion", want("1"))
		})
	}
}
