package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kube"
)

// Gadget is a custom kind that comes and goes.
type Gadget struct {
	kube.Object
	Spec struct {
		Size int32 `json:"size"`
	} `json:"spec"`
	Status struct {
		Size       int32              `json:"size"`
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

func (Gadget) GVK() kube.GVK {
	return kube.GVK{Group: "controller.pintle.test", Version: "v1", Kind: "Gadget"}
}

// A controller waits for a kind that is not installed while the others run. If the kind
// is removed and comes back, its controller goes on.
func TestKindComesAndGoes(t *testing.T) {
	b := newBench(t)
	def := crd.Of[Gadget](crd.Options{})
	if err := def.Err(); err != nil {
		t.Fatal(err)
	}
	definitions := kube.For[crd.Definition](b.client)
	remove := func() {
		err := definitions.Delete(context.WithoutCancel(t.Context()), def.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	t.Cleanup(remove)
	gadgets := kube.For[Gadget](b.client).In(b.namespace)
	address := testport.Address(t)
	b.start(Options{Address: address},
		Controller[Gadget]{For: gadgets, Owns: []kube.AnyHandle{b.children},
			Reconcile: func(ctx context.Context, g *Gadget) (Action, error) {
				g.Status.Size = g.Spec.Size
				SetCondition(g, &g.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue})
				return Done, gadgets.Status().Ensure(ctx, g)
			}},
		Controller[corev1.ConfigMap]{For: b.parents, Owns: []kube.AnyHandle{b.children}, Reconcile: b.applyChild},
	)
	b.create("p")
	b.eventually("the other controller runs", func() bool { return b.hasChild("p") })
	missing := func() int {
		return b.log.count("store is out of sync", "Gadget", "install its CustomResourceDefinition")
	}
	b.eventually("it is said that the kind is missing", func() bool { return missing() > 0 })
	ready := func(want int, say string) {
		t.Helper()
		var code int
		var body string
		b.eventually(fmt.Sprintf("/readyz answers %d and %q", want, say), func() bool {
			code, body = ask(t, "GET", "http://"+address+"/readyz", "")
			return code == want && strings.Contains(body, say)
		})
	}
	ready(http.StatusOK, "gadget: waits: ") // it does not wait for a kind that was never there
	time.Sleep(2 * time.Second)             // several tries, which say nothing
	if n := missing(); n != 1 {
		t.Errorf("that the kind is missing was said %d times:\n%s", n, b.log)
	}
	for round := range 2 {
		if err := crd.Install(t.Context(), b.client, def); err != nil {
			t.Fatal(err)
		}
		g := new(Gadget)
		g.Name, g.Spec.Size = "g", int32(7+round)
		b.eventually("a gadget can be created", func() bool {
			_, err := gadgets.Create(t.Context(), g)
			return err == nil
		})
		b.eventually("it is reconciled", func() bool {
			g, err := gadgets.Get(t.Context(), "g")
			return err == nil && g.Status.Size == g.Spec.Size && len(g.Status.Conditions) == 1 &&
				g.Status.Conditions[0].ObservedGeneration == g.Generation
		})
		ready(http.StatusOK, "gadget: ok")
		if round == 0 {
			remove()
			b.eventually("the definition is gone", func() bool {
				_, err := definitions.Get(t.Context(), def.Name)
				return apierrors.IsNotFound(err)
			})
			ready(http.StatusServiceUnavailable, "gadget: the kind is gone: ")
		}
	}
}

// A permission that is taken away is reported in the log and, through Failed, on the
// object. Once it is granted again, reconciles go on by themselves.
func TestPermissionRevoked(t *testing.T) {
	b := newBench(t)
	roles := kube.For[rbacv1.Role](b.client).In(b.namespace)
	bindings := kube.For[rbacv1.RoleBinding](b.client).In(b.namespace)
	grant := func(name string, rule rbacv1.PolicyRule) {
		t.Helper()
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role",
				Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "limited"}},
		}
		if _, err := roles.Apply(t.Context(), role); err != nil {
			t.Fatal(err)
		}
		if _, err := bindings.Apply(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
	grant("parents", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"},
		Verbs: []string{"get", "list", "watch", "patch"}})
	// blockOwnerDeletion needs this right.
	grant("finalizers", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps/finalizers"},
		Verbs: []string{"update"}})
	grant("children", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"},
		Verbs: []string{"get", "list", "watch", "patch", "create"}})

	limited := b.connect(nil, func(c *rest.Config) { c.Impersonate.UserName = "limited" })
	parents := kube.For[corev1.ConfigMap](limited).In(b.namespace).Labeled("role=parent")
	children := kube.For[corev1.Secret](limited).In(b.namespace)
	recorder := &event.Recorder{Client: b.client, Controller: "example.com/test", Logger: slog.New(b.log)}
	b.start(Options{Events: recorder}, Controller[corev1.ConfigMap]{
		For: parents, Owns: []kube.AnyHandle{children}, Backoff: Backoff{Min: 10 * time.Millisecond,
			Max: 200 * time.Millisecond},
		Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
			child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
			if err := kube.SetController(parents, p, children, child); err != nil {
				return Done, err
			}
			_, err := children.Apply(ctx, child)
			return Done, err
		},
		Failed: func(ctx context.Context, p *corev1.ConfigMap, err error) error {
			_, perr := parents.Modify(ctx, p.Name, func(p *corev1.ConfigMap) error {
				p.Data = map[string]string{"failed": err.Error()}
				return nil
			})
			return perr
		},
	})
	b.create("before")
	b.eventually("it works while it may", func() bool { return b.hasChild("before") })
	if err := bindings.Delete(t.Context(), "children"); err != nil {
		t.Fatal(err)
	}
	b.eventually("the right is gone", func() bool {
		_, err := children.Get(t.Context(), "before")
		return apierrors.IsForbidden(err)
	})
	b.create("after")
	b.eventually("it is said on the object", func() bool {
		p, err := b.parents.Get(t.Context(), "after")
		return err == nil && strings.Contains(p.Data["failed"], "not allowed")
	})
	b.eventually("there is an event about it", func() bool {
		for e, err := range kube.For[eventsv1.Event](b.client).In(b.namespace).List(t.Context()) {
			if err == nil && e.Regarding.Name == "after" && e.Reason == "ReconcileFailed" && e.Type == corev1.EventTypeWarning &&
				strings.Contains(e.Note, "not allowed") {
				return true
			}
		}
		return false
	})
	// A reconcile is logged at its very end.
	b.eventually("it is said in the log", func() bool {
		return b.log.count("reconcile failed", "after", "not allowed") > 0
	})
	if b.hasChild("after") {
		t.Error("a forbidden request succeeded")
	}
	grant("children", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"},
		Verbs: []string{"get", "list", "watch", "patch", "create"}})
	b.eventually("it goes on", func() bool { return b.hasChild("after") })
}

// A reconcile never sees its object older than its own last write, nor a child as it was
// before the reconcile created or deleted it.
func TestReconcileSeesItsWrites(t *testing.T) {
	b := newBench(t)
	const objects, writes = 250, 8 // few writes for each object, as After(0) without end is slowed down
	var stale, total atomic.Int64
	last := make([]atomic.Int64, objects)
	store := b.children.Open(t.Context())
	b.start(Options{}, Controller[corev1.ConfigMap]{For: b.parents, Owns: []kube.AnyHandle{b.children},
		Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
			n, err := strconv.Atoi(p.Name[1:])
			if err != nil {
				return Done, err
			}
			at := &last[n]
			seen := int64(len(p.Annotations["count"]))
			if want := at.Load(); seen < want {
				stale.Add(1)
			}
			if seen == writes {
				return Await, nil
			}
			// Every other time the child is there.
			_, err = kube.Get[corev1.Secret](ctx, store, kube.KeyOf(p))
			if exists := err == nil; exists != (seen%2 == 1) {
				t.Errorf("after %d writes the child of %s is there: %t", seen, p.Name, exists)
			}
			if seen%2 == 0 {
				child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
				if err := kube.SetController(b.parents, p, b.children, child); err != nil {
					return Done, err
				}
				_, err = b.children.Create(ctx, child)
			} else {
				err = b.children.Delete(ctx, p.Name)
			}
			if err != nil {
				return Done, err
			}
			p.Annotations = map[string]string{"count": strings.Repeat("x", int(seen)+1)}
			if _, err := b.parents.Update(ctx, p); err != nil {
				return Done, err
			}
			at.Store(seen + 1)
			total.Add(1)
			return After(0), nil
		}})
	for i := range objects {
		b.create(fmt.Sprint("p", i))
	}
	b.eventually("all writes are made", func() bool { return total.Load() == objects*writes })
	if n := stale.Load(); n > 0 {
		t.Errorf("%d reconciles of %d saw an object older than their own write", n, total.Load())
	}
	if n := b.log.count("reconcile failed"); n > 0 {
		t.Errorf("%d reconciles failed:\n%.3000s", n, b.log)
	}
}

// A program that may read its objects, and may not watch them, is not ready: the kubelet and a rollout
// must not take it for one that works. It becomes ready with the right.
func TestNotReadyWithoutTheRightToWatch(t *testing.T) {
	b := newBench(t)
	roles := kube.For[rbacv1.Role](b.client).In(b.namespace)
	bindings := kube.For[rbacv1.RoleBinding](b.client).In(b.namespace)
	grant := func(verbs ...string) {
		t.Helper()
		meta := metav1.ObjectMeta{Name: "parents"}
		_, err := roles.Apply(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs,
		}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = bindings.Apply(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "parents"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "reader"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	grant("get", "list")
	reader := b.connect(nil, func(c *rest.Config) { c.Impersonate.UserName = "reader" })
	address := testport.Address(t)
	b.start(Options{Address: address}, Controller[corev1.ConfigMap]{
		Name: "parents", For: kube.For[corev1.ConfigMap](reader).In(b.namespace), Reconcile: nothing[corev1.ConfigMap],
	})
	ready := func(want int, say string) {
		t.Helper()
		b.eventually(fmt.Sprintf("/readyz answers %d and %q", want, say), func() bool {
			code, body := ask(t, "GET", "http://"+address+"/readyz", "")
			return code == want && strings.Contains(body, say)
		})
	}
	ready(http.StatusServiceUnavailable, "parents: a right to list or watch is missing: watch ConfigMap")
	grant("get", "list", "watch")
	ready(http.StatusOK, "parents: ok")
}
