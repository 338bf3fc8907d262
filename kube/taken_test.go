package kube_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// A child does not replace an object that belongs to somebody else. It replaces an object
// that belongs to nobody only if the object has the child's labels.
func TestEnsureTakesNothingAway(t *testing.T) {
	s := start(t)
	mine, others := kube.For[corev1.ConfigMap](
		s.Client,
	).In(s.namespace),
		kube.For[corev1.ConfigMap](
			s.Client,
		).In(s.namespace).
			With(kube.WriteOptions{FieldManager: "other"})
	owner := func(name string) *corev1.ConfigMap {
		o := new(corev1.ConfigMap)
		o.Name = name
		o, err := others.Create(soon(t), o)
		must(t, err)
		return o
	}
	me, other := owner("me"), owner("other")
	child := func(of *corev1.ConfigMap, name string, labels map[string]string) *corev1.ConfigMap {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: labels},
			Data: map[string]string{"of": of.Name}}
		must(t, kube.SetController(mine, of, mine, c))
		return c
	}
	labels := map[string]string{"app": "x"}
	for _, c := range []struct {
		name   string
		make   func(o *corev1.ConfigMap)
		labels map[string]string
		want   string // expected in the error
	}{
		{"owned", func(o *corev1.ConfigMap) {
			must(t, kube.SetController(mine, other, mine, o))
		}, labels, "ConfigMap other owns it"},
		{"alone", func(*corev1.ConfigMap) {}, labels, `add the labels "app=x"`},
		{"alone-without-labels", func(*corev1.ConfigMap) {}, nil, "it has no controller"},
		{"co-owned", func(o *corev1.ConfigMap) {
			must(t, kube.SetOwner(mine, other, mine, o))
		}, labels, "it has no controller"},
		{"orphaned", func(o *corev1.ConfigMap) { o.Labels = map[string]string{"app": "x", "more": "y"} }, labels, ""},
		{"earlier", func(o *corev1.ConfigMap) {
			before := me.DeepCopy()
			before.UID = "another"
			must(t, kube.SetController(mine, before, mine, o))
		}, labels, "an earlier ConfigMap me owns it"},
	} {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: s.namespace},
			Data: map[string]string{"of": "somebody"}}
		c.make(o)
		_, err := others.Create(soon(t), o)
		must(t, err)
		e := ensure(t, s, mine, others, func() *corev1.ConfigMap { return child(me, c.name, c.labels) })
		_, err = e.mine.Ensure(soon(t), e.intent())
		is, failed := others.Get(soon(t), c.name)
		must(t, failed)
		switch {
		case c.want == "" && (err != nil || is.Data["of"] != "me" || !metav1.IsControlledBy(is, me)):
			t.Errorf("%s: %v, %v", c.name, err, is)
		case c.want != "" && (!errors.Is(err, kube.ErrTaken) ||
			!strings.Contains(err.Error(), "apply ConfigMap "+s.namespace+"/"+c.name) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case c.want != "" && (is.Data["of"] != "somebody" || metav1.IsControlledBy(is, me)):
			t.Errorf("%s: it was taken: %v", c.name, is)
		}
	}
}

// A store that is narrowed by labels does not show somebody else's object without them. A
// child does not replace that object either, and takes back an object of its owner.
func TestEnsureTakesNothingThatLabelsHide(t *testing.T) {
	s := start(t)
	all := kube.For[corev1.Secret](s.Client).In(s.namespace)
	mine := all.Labeled("app=x")
	others := all.With(kube.WriteOptions{FieldManager: "other"})
	secret := func(name, of string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
			Data: map[string][]byte{"of": []byte(of)}}
	}
	create := func(o *corev1.Secret) *corev1.Secret {
		o, err := others.Create(soon(t), o)
		must(t, err)
		return o
	}
	me := create(secret("me", ""))
	create(secret("hidden", "somebody"))
	lost := secret("lost", "me")
	must(t, kube.SetController(all, me, all, lost))
	create(lost)
	for name, taken := range map[string]bool{"hidden": false, "lost": true, "new": true} {
		e := ensure(t, s, mine, others, func() *corev1.Secret {
			c := secret(name, "us")
			c.Labels = map[string]string{"app": "x"}
			must(t, kube.SetController(all, me, all, c))
			return c
		})
		_, err := e.mine.Ensure(soon(t), e.intent())
		is, failed := others.Get(soon(t), name)
		must(t, failed)
		if taken != (err == nil) || !taken && !errors.Is(err, kube.ErrTaken) || taken != (string(is.Data["of"]) == "us") {
			t.Errorf("%s: %v, %s", name, err, is.Data)
		}
		if taken {
			e.quiet("the second time")
		}
	}
}
