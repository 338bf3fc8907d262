package main

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/manifest"
)

// The tests of this file are recipes of docs/from-controller-runtime.md.

// A Robot logs in with the Secrets that it names.
type Robot struct {
	kube.Object
	Spec struct {
		Secrets []string `json:"secrets"`
	} `json:"spec"`
	Status struct {
		Keys int `json:"keys"`
	} `json:"status,omitzero"`
}

func (Robot) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Robot"} }

func (r *Robot) secrets() (keys []kube.Key) {
	for _, name := range r.Spec.Secrets {
		keys = append(keys, kube.Key{Namespace: r.Namespace, Name: name})
	}
	return keys
}

// robots reconciles a Robot when it or one of its Secrets changes.
func robots(client *kube.Client, namespace string) controller.Any {
	robots := kube.For[Robot](client).In(namespace)
	secrets := kube.For[corev1.Secret](client).In(namespace).ReadOnly()
	return controller.Controller[Robot]{
		For:     robots,
		Watches: []controller.Source{controller.Referenced(secrets, (*Robot).secrets)},
		Reconcile: func(ctx context.Context, r *Robot) (controller.Action, error) {
			r.Status.Keys = 0
			for _, key := range r.secrets() {
				secret, err := secrets.In(key.Namespace).Cached().Get(ctx, key.Name)
				if apierrors.IsNotFound(err) {
					continue // its creation reconciles the Robot
				}
				if err != nil {
					return controller.Done, err
				}
				r.Status.Keys += len(secret.Data)
			}
			return controller.Done, robots.Status().Ensure(ctx, r)
		},
	}
}

// copies keeps a copy of each ConfigMap with the label in another cluster. An owner
// reference cannot lead there, so Gone deletes the copies.
func copies(from, to *kube.Client, namespace string) controller.Any {
	const label = "example.com/copied=yes"
	sources := kube.For[corev1.ConfigMap](from).In(namespace).Labeled(label).ReadOnly()
	targets := kube.For[corev1.ConfigMap](to).In(namespace).Labeled(label)
	return controller.Controller[corev1.ConfigMap]{
		Name: "copies",
		For:  sources,
		Watches: []controller.Source{controller.Mapped(targets, func(_ context.Context, c *corev1.ConfigMap) []kube.Key {
			return []kube.Key{kube.KeyOf(c)}
		})},
		Reconcile: func(ctx context.Context, source *corev1.ConfigMap) (controller.Action, error) {
			about := metav1.ObjectMeta{Name: source.Name, Labels: map[string]string{"example.com/copied": "yes"}}
			_, err := targets.Ensure(ctx, &corev1.ConfigMap{ObjectMeta: about, Data: source.Data})
			return controller.Done, err
		},
		Gone: func(ctx context.Context, source *corev1.ConfigMap) error {
			err := targets.Delete(ctx, source.Name)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		},
	}
}

// userRoles returns roles that the roles view, edit and admin of the cluster take in.
func userRoles(o manifest.Operator) ([]any, error) {
	role := func(name, into string, verbs ...string) *rbacv1.ClusterRole {
		labels := map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + into: "true"}
		return &rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: o.Name + "-" + name, Labels: labels},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"sites"}, Verbs: verbs}},
		}
	}
	return []any{
		role("viewer", "view", "get", "list", "watch"),
		role("editor", "edit", "create", "update", "patch", "delete", "deletecollection"),
	}, nil
}

// runs runs a controller until the test ends.
func runs(t *testing.T, c controller.Any) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx, controller.Options{}, c) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func connect(t *testing.T, options kubetest.Options) (*kubetest.Cluster, *kube.Client, context.Context) {
	t.Helper()
	cluster := kubetest.Start(t, options)
	client, err := kube.Config{Rest: cluster.Config(), FieldManager: "site-operator"}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return cluster, client, ctx
}

// A Secret that appears reconciles the Robot that names it.
func TestReferencedSecrets(t *testing.T) {
	cluster, client, ctx := connect(t, kubetest.Options{Nodes: 1})
	if err := crd.Install(ctx, client, crd.Of[Robot](crd.Options{})); err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace(t)
	runs(t, robots(client, namespace))
	robot := new(Robot)
	robot.Name, robot.Spec.Secrets = "r2", []string{"door", "lift"}
	all := kube.For[Robot](client).In(namespace)
	if _, err := all.Create(ctx, robot); err != nil {
		t.Fatal(err)
	}
	for _, keys := range []int{2, 4} {
		secret := &corev1.Secret{StringData: map[string]string{"user": "r2", "password": "beep"}}
		secret.Name = map[int]string{2: "lift", 4: "door"}[keys]
		if _, err := kube.For[corev1.Secret](client).In(namespace).Create(ctx, secret); err != nil {
			t.Fatal(err)
		}
		if _, err := all.Until(ctx, "r2", func(r *Robot) bool { return r.Status.Keys == keys }); err != nil {
			t.Fatal(err)
		}
	}
}

// A controller of two clusters copies, puts a copy back, and deletes it after its source.
func TestTwoClusters(t *testing.T) {
	cluster, from, ctx := connect(t, kubetest.Options{Nodes: 1})
	_, to, _ := connect(t, kubetest.Options{ServerOnly: true})
	namespace := cluster.Namespace(t)
	there := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := kube.For[corev1.Namespace](to).Create(ctx, there); err != nil {
		t.Fatal(err)
	}
	runs(t, copies(from, to, namespace))
	source := &corev1.ConfigMap{Data: map[string]string{"text": "one"}}
	source.Name, source.Labels = "shared", map[string]string{"example.com/copied": "yes"}
	sources, targets := kube.For[corev1.ConfigMap](from).In(namespace), kube.For[corev1.ConfigMap](to).In(namespace)
	if _, err := sources.Create(ctx, source); err != nil {
		t.Fatal(err)
	}
	isOne := func(c *corev1.ConfigMap) bool { return c.Data["text"] == "one" }
	if _, err := targets.Until(ctx, "shared", isOne); err != nil {
		t.Fatal(err)
	}
	_, err := targets.Modify(ctx, "shared", func(c *corev1.ConfigMap) error { c.Data["text"] = "two"; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := targets.Until(ctx, "shared", isOne); err != nil {
		t.Fatal(err)
	}
	if err := sources.Delete(ctx, "shared"); err != nil {
		t.Fatal(err)
	}
	if err := targets.UntilGone(ctx, "shared"); err != nil {
		t.Fatal(err)
	}
}

// The cluster's own roles take the operator's roles for users in.
func TestUserRoles(t *testing.T) {
	_, client, ctx := connect(t, kubetest.Options{Nodes: 1})
	op, err := describe(client)
	if err != nil {
		t.Fatal(err)
	}
	op.Install.Objects = userRoles
	if _, err := op.YAML(); err != nil {
		t.Fatal(err)
	}
	objects, err := userRoles(op)
	if err != nil {
		t.Fatal(err)
	}
	roles := kube.For[rbacv1.ClusterRole](client)
	for _, o := range objects {
		if _, err := roles.Apply(ctx, o.(*rbacv1.ClusterRole)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = roles.Delete(context.WithoutCancel(ctx), o.(*rbacv1.ClusterRole).Name) })
	}
	for role, verbs := range map[string]int{"view": 3, "edit": 8, "admin": 8} {
		_, err := roles.Until(ctx, role, func(r *rbacv1.ClusterRole) bool {
			found := 0
			for _, rule := range r.Rules {
				if len(rule.Resources) == 1 && rule.Resources[0] == "sites" {
					found += len(rule.Verbs)
				}
			}
			return found == verbs
		})
		if err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
}
