package kube_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestUntil(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	ready := func(cm *corev1.ConfigMap) bool { return cm.Data["ready"] == "yes" }

	// The object does not exist at first. Then it does not meet the condition. Then it
	// does.
	done := make(chan error, 1)
	var seen *corev1.ConfigMap
	go func() {
		var err error
		seen, err = maps.Until(soon(t), "m", ready)
		done <- err
	}()
	got(maps.Create(soon(t), configMap("other", "ready", "yes")))(t)
	got(maps.Create(soon(t), configMap("m")))(t)
	select {
	case err := <-done:
		t.Fatalf("ended early: %v", err)
	case <-time.After(300 * time.Millisecond): // it may not end
	}
	got(maps.Patch(soon(t), "m", types.MergePatchType, []byte(`{"data":{"ready":"yes"}}`)))(t)
	must(t, <-done)
	if seen.Name != "m" || !ready(seen) {
		t.Errorf("returned %+v", seen)
	}
	// The object already meets the condition.
	got(maps.Until(soon(t), "m", ready))(t)

	for name, c := range map[string]struct {
		object string
		want   string
	}{
		"missing":        {"none", "it does not exist"},
		"does not hold":  {"m", "the condition does not hold"},
		"gone meanwhile": {"other", "the condition does not hold"},
	} {
		t.Run(name, func(t *testing.T) {
			patiently(t, "wait for ConfigMap "+s.namespace+"/"+c.object+": context deadline exceeded: "+c.want,
				func(ctx context.Context) error {
					_, err := maps.Until(ctx, c.object, func(*corev1.ConfigMap) bool { return false })
					return err
				})
		})
	}
}

// The error of a wait shows the status as it was last, and no other content: it may be secret.
func TestUntilStatus(t *testing.T) {
	s := start(t)
	pods := kube.For[corev1.Pod](s.Client).In(s.namespace)
	pod := new(corev1.Pod)
	pod.Name, pod.Spec.Containers = "p", []corev1.Container{{Name: "c", Image: "i"}}
	got(pods.Create(soon(t), pod))(t)
	patch := []byte(`{"status":{"phase":"Failed","message":"` + strings.Repeat("ö", 600) + `","qosClass":"BestEffort"}}`)
	got(kube.Sub[corev1.Pod](pods, "status").Patch(soon(t), "p", types.MergePatchType, patch))(t)
	want := `the condition does not hold, the status is {"phase":"Failed","message":"` + strings.Repeat("ö", 235) + "…"
	patiently(t, "wait for Pod "+s.namespace+"/p: context deadline exceeded: "+want, func(ctx context.Context) error {
		_, err := pods.Until(ctx, "p", func(*corev1.Pod) bool { return false })
		return err
	})
}

func TestUntilGone(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	must(t, maps.UntilGone(soon(t), "never"))

	held := configMap("m")
	held.Finalizers = []string{"example.com/hold"}
	got(maps.Create(soon(t), held))(t)
	must(t, maps.Delete(soon(t), "m"))
	patiently(
		t,
		"wait for ConfigMap "+s.namespace+`/m: context deadline exceeded: the finalizers ["example.com/hold"] keep it`,
		func(ctx context.Context) error {
			return maps.UntilGone(ctx, "m")
		},
	)
	done := make(chan error, 1)
	go func() { done <- maps.UntilGone(soon(t), "m") }()
	time.Sleep(200 * time.Millisecond) // the wait has begun, as a rule; it ends in either case
	got(maps.Patch(soon(t), "m", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))(t)
	must(t, <-done)

	// Another object of the same name is not the object of the wait.
	got(maps.Create(soon(t), configMap("n")))(t)
	go func() { done <- maps.UntilGone(soon(t), "n") }()
	kubetest.Eventually(t, "n is read", func() error {
		if !s.answered("GET", "/configmaps/n") {
			return errors.New("there was no such request")
		}
		return nil
	})
	must(t, maps.Delete(soon(t), "n"))
	got(maps.Create(soon(t), configMap("n")))(t)
	must(t, <-done)
}

// patiently checks the error of a wait whose time is up before its condition is met. If
// the server takes that long to answer at all, patiently gives the wait more time.
func patiently(t *testing.T, want string, wait func(context.Context) error) {
	t.Helper()
	var err error
	for limit := 700 * time.Millisecond; limit < time.Minute; limit *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err = wait(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && err.Error() == want {
			return
		}
	}
	t.Errorf("got error\n%v\nwant\n%s", err, want)
}

func TestUntilCluster(t *testing.T) {
	s := start(t)
	namespaces := kube.For[corev1.Namespace](s.Client)
	ns := got(namespaces.Until(soon(t), s.namespace, func(n *corev1.Namespace) bool {
		return n.Status.Phase == corev1.NamespaceActive
	}))(t)
	if ns.Name != s.namespace {
		t.Errorf("returned %+v", ns)
	}
	_, err := kube.For[corev1.ConfigMap](s.Client).Until(soon(t), "x", nil)
	if !errors.Is(err, kube.ErrScope) {
		t.Errorf("got error %v", err)
	}
}

// A name is one value of a field selector, whatever it holds. The server has no object of
// such a name, and the wait must not find another object.
func TestUntilOddName(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	got(maps.Create(soon(t), configMap("plain")))(t)
	odd := []string{"plain,metadata.namespace!=x", "plain,metadata.name=plain", `plain\`, "plain=", "!plain"}
	for _, name := range odd {
		ctx, cancel := context.WithCancelCause(t.Context())
		events := maps.Fielded("metadata.name!=x")
		go func() { // when the watch of the name has had time to find the other object
			_, _ = events.Until(ctx, "plain", func(*corev1.ConfigMap) bool { return true })
			cancel(errors.New("waited"))
		}()
		if o, err := maps.Until(ctx, name, func(*corev1.ConfigMap) bool { return true }); err == nil {
			t.Errorf("Until %q found %s", name, o.Name)
		}
	}
}
