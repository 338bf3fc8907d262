package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// ensuring checks Ensure of one kind, in one namespace, with a running store.
type ensuring[T any] struct {
	*testing.T
	*server
	mine, others kube.Resource[T]
	store        *kube.Store[T]
	intent       func() *T
}

func ensure[T any](t *testing.T, s *server, mine, others kube.Resource[T], intent func() *T) *ensuring[T] {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	store := kube.StoreOf(ctx, mine)
	t.Cleanup(func() { cancel(); <-store.Done() })
	must(t, store.Sync(soon(t)))
	return &ensuring[T]{t, s, mine, others, store, intent}
}

// writes ensures the intent and returns the number of requests.
func (e *ensuring[T]) writes() (n int) {
	e.Helper()
	for _, c := range e.during(func() {
		if _, err := e.mine.Ensure(soon(e.T), e.intent()); err != nil {
			e.Fatal(err)
		}
	}) {
		if !strings.Contains(c.query, "watch=") && c.method != "GET" {
			n++
		}
	}
	return n
}

// quiet fails unless Ensure takes no request.
func (e *ensuring[T]) quiet(when string) {
	e.Helper()
	if n := e.writes(); n != 0 {
		e.Errorf("%s: %d requests, want none", when, n)
	}
}

// patch changes an object as somebody else.
func (e *ensuring[T]) patch(name, patch string) {
	e.Helper()
	if _, err := e.others.Patch(soon(e.T), name, types.MergePatchType, []byte(patch)); err != nil {
		e.Fatal(err)
	}
}

// settles ensures the intent until the object is right on the server.
func (e *ensuring[T]) settles(what, name string, right func(*T) bool) {
	e.Helper()
	kubetest.Eventually(e, what, func() error {
		e.writes()
		o, err := e.others.Get(soon(e.T), name)
		if err != nil && !apierrors.IsNotFound(err) {
			e.Fatalf("%s: %v", what, err)
		}
		if err == nil && !right(o) {
			err = fmt.Errorf("%+v", o)
		}
		return err
	})
}

// Ensure costs no request until somebody changes a field that it sets. Then the field
// comes back. Fields that others add stay.
func TestEnsureDeployment(t *testing.T) {
	s := start(t)
	other := s.connect(t, s.cluster.Config())
	replicas := int32(2)
	e := ensure(t, s, kube.For[appsv1.Deployment](s.Client).In(s.namespace),
		kube.For[appsv1.Deployment](other).In(s.namespace), func() *appsv1.Deployment {
			labels := map[string]string{"app": "web"}
			return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels}, Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}},
			}}
		})
	if n := e.writes(); n != 1 {
		t.Errorf("%d requests at first, want 1", n)
	}
	e.quiet("again")
	must(t, statusOfDeployment(t, e.others, "web"))
	e.patch("web", `{"metadata":{"annotations":{"theirs":"yes"}}}`)
	time.Sleep(100 * time.Millisecond) // the watch shows it, as a rule; both ways cost nothing
	e.quiet("after a change of what is not set")
	e.patch("web", `{"spec":{"replicas":7,"paused":true}}`)
	e.settles("replicas come back, what others set stays", "web", func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == 2 && d.Spec.Paused && d.Annotations["theirs"] == "yes"
	})
	e.patch("web", `{"metadata":{"labels":{"app":"other"}}}`)
	e.settles("a label comes back", "web", func(d *appsv1.Deployment) bool { return d.Labels["app"] == "web" })
	replicas = 3
	e.settles("a new intent", "web", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 })
	must(t, e.others.Delete(soon(t), "web"))
	e.settles("it is recreated", "web", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 })
	e.quiet("at the end")
}

// Somebody changes the order of a list whose items have keys. Ensure puts the order back.
func TestEnsureOrder(t *testing.T) {
	s := start(t)
	other := s.connect(t, s.cluster.Config())
	e := ensure(t, s, kube.For[appsv1.Deployment](s.Client).In(s.namespace),
		kube.For[appsv1.Deployment](other).In(s.namespace), func() *appsv1.Deployment {
			labels := map[string]string{"app": "web"}
			pod := corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "b", Image: "b:1"}, {Name: "a", Image: "a:1"}},
				Containers: []corev1.Container{
					{Name: "web", Image: "web:1", Env: []corev1.EnvVar{{Name: "B", Value: "1"}, {Name: "A", Value: "$(B)"}}},
				},
			}
			return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
			}}
		})
	e.writes()
	first := func(d *appsv1.Deployment) (container, env string) {
		pod := d.Spec.Template.Spec
		return pod.InitContainers[0].Name, pod.Containers[0].Env[0].Name
	}
	for name, swap := range map[string]func(pod *corev1.PodSpec){
		"init containers": func(pod *corev1.PodSpec) { slices.Reverse(pod.InitContainers) },
		"variables":       func(pod *corev1.PodSpec) { slices.Reverse(pod.Containers[0].Env) },
	} {
		got(e.others.Modify(soon(t), "web", func(d *appsv1.Deployment) error {
			swap(&d.Spec.Template.Spec)
			return nil
		}))(t)
		e.settles("the order of "+name, "web", func(d *appsv1.Deployment) bool {
			container, env := first(d)
			return container == "b" && env == "B"
		})
	}
	got(e.others.Modify(soon(t), "web", func(d *appsv1.Deployment) error {
		pod := &d.Spec.Template.Spec
		pod.InitContainers = slices.Insert(pod.InitContainers, 1, corev1.Container{Name: "theirs", Image: "c:1"})
		return nil
	}))(t)
	time.Sleep(100 * time.Millisecond) // the watch shows it, as a rule; both ways cost nothing
	e.quiet("after somebody has put an item between ours")
}

// statusOfDeployment writes a status as somebody else.
func statusOfDeployment(t *testing.T, r kube.Resource[appsv1.Deployment], name string) error {
	t.Helper()
	d := got(r.Get(soon(t), name))(t)
	d.Status.Replicas, d.Status.ObservedGeneration = 2, d.Generation
	return r.Status().Update(soon(t), d)
}

// Ensure settles in the same way for kinds that count no generations.
func TestEnsureWithoutGeneration(t *testing.T) {
	s := start(t)
	other := s.connect(t, s.cluster.Config())
	services := ensure(t, s, kube.For[corev1.Service](s.Client).In(s.namespace),
		kube.For[corev1.Service](other).In(s.namespace), func() *corev1.Service {
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80,
					TargetPort: intstr.FromInt32(8080)}},
			}}
		})
	if n := services.writes(); n != 1 {
		t.Errorf("%d requests at first, want 1", n)
	}
	services.quiet("again")
	services.patch("web", `{"spec":{"sessionAffinity":"ClientIP"}}`)
	time.Sleep(100 * time.Millisecond) // the watch shows it, as a rule; both ways cost nothing
	services.quiet("after a change of what is not set")
	services.patch("web", `{"spec":{"selector":{"app":"other"}}}`)
	services.settles("the selector comes back", "web", func(o *corev1.Service) bool {
		return o.Spec.Selector["app"] == "web" && o.Spec.SessionAffinity == "ClientIP"
	})
	services.patch("web", `{"spec":{"ports":[{"name":"http","port":80,"targetPort":9090}]}}`)
	services.settles("the port comes back", "web", func(o *corev1.Service) bool {
		return o.Spec.Ports[0].TargetPort.IntValue() == 8080
	})
	services.quiet("at the end")

	data := map[string]string{"a": "1", "b": "2"}
	maps := ensure(t, s, kube.For[corev1.ConfigMap](s.Client).In(s.namespace),
		kube.For[corev1.ConfigMap](other).In(s.namespace), func() *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "map"}, Data: data}
		})
	maps.writes()
	maps.quiet("again")
	maps.patch("map", `{"data":{"theirs":"yes"}}`)
	time.Sleep(100 * time.Millisecond) // the watch shows it, as a rule; both ways cost nothing
	maps.quiet("after others have added something")
	maps.patch("map", `{"data":{"a":null}}`)
	maps.settles("a value comes back", "map", func(o *corev1.ConfigMap) bool {
		return o.Data["a"] == "1" && o.Data["theirs"] == "yes"
	})
	data = map[string]string{"a": "1"}
	maps.settles("what is no longer set is removed", "map", func(o *corev1.ConfigMap) bool {
		_, there := o.Data["b"]
		return !there && o.Data["theirs"] == "yes"
	})

	secrets := ensure(t, s, kube.For[corev1.Secret](s.Client).In(s.namespace),
		kube.For[corev1.Secret](other).In(s.namespace), func() *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"},
				StringData: map[string]string{"password": "secret"}}
		})
	secrets.writes()
	secrets.patch("secret", `{"data":{"password":"b3RoZXI="}}`)
	secrets.settles("what does not show as it was sent comes back", "secret", func(o *corev1.Secret) bool {
		return string(o.Data["password"]) == "secret"
	})
}

// overtaken calls a function before it hands over the answer to a write.
type overtaken struct {
	http.RoundTripper
	by *func()
}

func (o overtaken) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.RoundTripper.RoundTrip(r)
	if r.Method == http.MethodPatch && *o.by != nil {
		by := *o.by
		*o.by = nil
		by()
	}
	return resp, err
}

// The watch may tell of an object before the answer to the write comes. It may also tell
// of later changes by others before that.
func TestEnsureWhenTheWatchIsQuicker(t *testing.T) {
	s := start(t)
	var meanwhile func()
	config := s.cluster.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return overtaken{next, &meanwhile} })
	mine := kube.For[corev1.ConfigMap](s.connect(t, config)).In(s.namespace)
	e := ensure(t, s, mine, kube.For[corev1.ConfigMap](s.Client).In(s.namespace), func() *corev1.ConfigMap {
		return configMap("map", "a", "1")
	})
	patched := func(patch string, seen func(*corev1.ConfigMap) bool) func() {
		return func() {
			if _, err := e.others.Patch(soon(t), "map", types.MergePatchType, []byte(patch)); err != nil {
				t.Error(err)
			}
			kubetest.Eventually(t, "the store shows the change", func() error {
				o, err := e.store.Get(soon(t), kube.Key{Namespace: s.namespace, Name: "map"})
				if err == nil && !seen(o) {
					err = fmt.Errorf("%+v", o)
				}
				return err
			})
		}
	}
	meanwhile = patched(`{"data":{"theirs":"yes"}}`, func(o *corev1.ConfigMap) bool { return o.Data["theirs"] == "yes" })
	if n := e.writes(); n != 2 { // one of them is the other's
		t.Errorf("%d requests at first, want 2", n)
	}
	e.quiet("after others have added something")
	must(t, e.others.Delete(soon(t), "map"))
	meanwhile = patched(`{"data":{"a":"2"}}`, func(o *corev1.ConfigMap) bool { return o.Data["a"] == "2" })
	e.settles("a value that was changed meanwhile comes back", "map", func(o *corev1.ConfigMap) bool {
		return o.Data["a"] == "1"
	})
	e.quiet("at the end")
}

// Without a store, Ensure is Apply.
func TestEnsureWithoutStore(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	for range 2 {
		calls := s.during(func() { got(maps.Ensure(soon(t), configMap("map", "a", "1")))(t) })
		if len(calls) != 1 || calls[0].method != "PATCH" {
			t.Errorf("the calls are %+v", calls)
		}
	}
}
