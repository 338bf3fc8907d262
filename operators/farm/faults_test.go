package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

// kill ends the program at once.
func (f *farm) kill() {
	f.Helper()
	f.ok(f.operator.Signal(syscall.SIGKILL))
	<-f.operator.Done()
}

// TestKilled kills the program during 200 writes of eight clients.
func TestKilled(t *testing.T) { killed(t, 25, 100) }

// TestSoakKilled kills the program three times during 1,000 writes.
func TestSoakKilled(t *testing.T) { killed(t, 125, 200, 500, 800) }

// killed kills the program when so many writes are done, of eight clients. No write that was
// acknowledged is lost, and no version goes back.
func killed(t *testing.T, writes int, kills ...int) {
	f := newFarm(t)
	const writers = 8
	var mu sync.Mutex
	acknowledged := map[string]*Llama{} // the last of each name
	done := 0
	note := func(l *Llama) {
		mu.Lock()
		defer mu.Unlock()
		done++
		if was := acknowledged[l.Name]; was != nil && versionOf(t, was) >= versionOf(t, l) {
			t.Errorf("%s: version %s after %s", l.Name, l.ResourceVersion, was.ResourceVersion)
		}
		acknowledged[l.Name] = l
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range writes {
				name := fmt.Sprintf("llama-%d-%d", w, i/5) // each is created and changed four times
				for t.Context().Err() == nil {
					l := new(Llama)
					l.Name, l.Spec.Weight, l.Spec.Height = name, int32(i+1), 170
					// Apply is right whether or not an earlier try had an effect.
					l, err := f.llamas.Apply(t.Context(), l)
					if err == nil {
						note(l)
						break
					}
					time.Sleep(10 * time.Millisecond) // before the next try
				}
			}
		})
	}
	for _, at := range kills {
		f.until(fmt.Sprintf("%d writes are done", at), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return done >= at
		})
		f.kill()
		f.start()
	}
	all.Wait()
	for name, want := range acknowledged {
		got, err := f.llamas.Get(t.Context(), name)
		f.ok(err)
		if got.UID != want.UID || got.Spec != want.Spec || versionOf(t, got) < versionOf(t, want) {
			t.Errorf("%s is %+v in version %s, acknowledged was %+v in version %s", name, got.Spec, got.ResourceVersion, want.Spec, want.ResourceVersion)
		}
	}
	if done != writers*writes {
		t.Errorf("%d writes", done)
	}
}

func versionOf(t *testing.T, l *Llama) int64 {
	t.Helper()
	v, err := strconv.ParseInt(l.ResourceVersion, 10, 64)
	if err != nil {
		t.Error(err)
	}
	return v
}

// TestSoakAway ends the program for a minute, without its goodbye. Its kinds say that it is
// away. Other parts of the cluster work, except that no namespace can be deleted.
func TestSoakAway(t *testing.T) {
	const away = time.Minute
	f := newFarm(t)
	_, err := f.llama("dora", 110, 170)
	f.ok(err)
	client := optest.Client(t, f.cluster.Config())
	f.kill()
	gone := time.Now()

	services := kube.For[apiService](client)
	f.until("kube-apiserver knows that the program is away", func() bool {
		s, err := services.Get(t.Context(), version+"."+group)
		f.ok(err)
		for _, c := range s.Status.Conditions {
			if c.Type == "Available" && c.Status == "False" {
				return true
			}
		}
		return false
	})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	began := time.Now()
	_, err = f.llamas.In(f.namespace).Get(ctx, "dora")
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) || status.Status().Code != 503 {
		t.Errorf("get a llama: %v", err)
	}
	t.Logf("the answer after %s: %v", time.Since(began), err)

	// Workloads roll out, and namespaces can be made.
	deployments := kube.For[appsv1.Deployment](client).In(f.namespace)
	d := new(appsv1.Deployment)
	d.Name = "other"
	labels := map[string]string{"app": "other"}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels, d.Spec.Template.Spec.Containers = labels, []corev1.Container{{Name: "a", Image: "any:1"}}
	_, err = deployments.Create(t.Context(), d)
	f.ok(err)
	soon, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = deployments.Until(soon, "other", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 1 })
	f.ok(err)
	f.ok(deployments.Delete(t.Context(), "other"))
	f.until("the pods are collected", func() bool {
		for _, err := range f.pods.List(t.Context()) {
			f.ok(err)
			return false
		}
		return true
	})
	// Kubernetes cannot know which objects of the group are in a namespace.
	namespaces := kube.For[corev1.Namespace](client)
	n := new(corev1.Namespace)
	n.GenerateName = "leaving-"
	n, err = namespaces.Create(t.Context(), n)
	f.ok(err)
	f.ok(namespaces.Delete(t.Context(), n.Name))
	f.until("the namespace says why it stays", func() bool {
		n, err := namespaces.Get(t.Context(), n.Name)
		f.ok(err)
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionDiscoveryFailure && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
	time.Sleep(time.Until(gone.Add(away))) // the promise is about that time

	f.start()
	f.mood("dora", "content")
	// The namespace's controller tries again with pauses that double.
	later, cancelLater := context.WithTimeout(t.Context(), 2*patience)
	defer cancelLater()
	f.ok(namespaces.UntilGone(later, n.Name))
}

// apiService has the fields of an APIService that tests read.
type apiService struct {
	kube.Object
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// GVK names the kind.
func (apiService) GVK() kube.GVK {
	return kube.GVK{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
}
