package kube_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestModifySendsTheDifference(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	got(maps.Create(soon(t), configMap("m", "a", "1", "b", "2")))(t)
	var m *corev1.ConfigMap
	calls := s.during(func() {
		m = got(maps.Modify(soon(t), "m", func(m *corev1.ConfigMap) error {
			delete(m.Data, "a")
			m.Data["c"] = "3"
			return nil
		}))(t)
	})
	if len(m.Data) != 2 || m.Data["b"] != "2" || m.Data["c"] != "3" {
		t.Errorf("the data is %v", m.Data)
	}
	if len(calls) != 2 || calls[1].method != "PATCH" || calls[1].sent != "application/merge-patch+json" {
		t.Errorf("the calls were\n%s", rows(calls))
	}
	calls = s.during(func() {
		got(maps.Modify(soon(t), "m", func(m *corev1.ConfigMap) error { return nil }))(t)
	})
	if len(calls) != 1 {
		t.Errorf("without a change the calls were\n%s", rows(calls))
	}
}

// TestModifyOfAView checks that fields that a view does not name stay, in lists too.
func TestModifyOfAView(t *testing.T) {
	type view struct {
		kube.Object
		Spec struct {
			Containers []struct {
				Name  string `json:"name"`
				Image string `json:"image"`
			} `json:"containers"`
		} `json:"spec"`
	}
	s := start(t)
	whole := kube.For[corev1.Pod](s.Client).In(s.namespace)
	pod := simplePod("p")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	got(whole.Create(soon(t), pod))(t)
	views := kube.ViewOf[view](s.Client, kube.KindOf[corev1.Pod]()).In(s.namespace)
	got(views.Modify(soon(t), "p", func(v *view) error {
		v.Spec.Containers[0].Image = "j"
		v.Labels = map[string]string{"x": "y"}
		return nil
	}))(t)
	p := got(whole.Get(soon(t), "p"))(t)
	if c := p.Spec.Containers[0]; c.Image != "j" || len(c.Env) != 1 || c.Env[0].Value != "1" || p.Labels["x"] != "y" {
		t.Errorf("the pod has labels %v and container %+v", p.Labels, c)
	}
}

// TestModifyCounts has several goroutines count in one object: conflicts start over, and
// no count is lost.
func TestModifyCounts(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	got(maps.Create(soon(t), configMap("m", "n", "0")))(t)
	const counters, each = 4, 10
	var counting sync.WaitGroup
	for range counters {
		counting.Go(func() {
			for range each {
				_, err := maps.Modify(soon(t), "m", func(m *corev1.ConfigMap) error {
					n, err := strconv.Atoi(m.Data["n"])
					m.Data["n"] = strconv.Itoa(n + 1)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	counting.Wait()
	if m := got(maps.Get(soon(t), "m"))(t); m.Data["n"] != strconv.Itoa(counters*each) {
		t.Errorf("counted to %s, want %d", m.Data["n"], counters*each)
	}
}

// TestModifyEnds checks that any error of the change function ends Modify.
func TestModifyEnds(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	got(maps.Create(soon(t), configMap("m")))(t)
	for _, want := range []error{errors.New("no"),
		apierrors.NewConflict(schema.GroupResource{Resource: "others"}, "o", nil)} {
		times := 0
		_, err := maps.Modify(soon(t), "m", func(*corev1.ConfigMap) error {
			times++
			return want
		})
		if !errors.Is(err, want) || times != 1 {
			t.Errorf("after %d times: %v, want %v", times, err, want)
		}
	}
	if _, err := maps.Modify(soon(t), "absent", func(*corev1.ConfigMap) error { return nil }); !apierrors.IsNotFound(err) {
		t.Errorf("of an object that is not there: %v", err)
	}
}
