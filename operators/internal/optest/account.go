package optest

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/install"
)

// Manifests runs the program to print its manifests, in an environment without a cluster.
func (b *Binary) Manifests(t testing.TB, args ...string) []install.Manifest {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), b.Path(t), append([]string{"manifests"}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=" + t.TempDir() + "/none"}
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("print manifests: %v", err)
	}
	list, err := install.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Rights returns the rights in the program's manifests, one by one.
func (b *Binary) Rights(t testing.TB) (all []Right) {
	t.Helper()
	for _, m := range b.Manifests(t) {
		if m.GVK.Kind != "Role" && m.GVK.Kind != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(m.YAML, &role); err != nil {
			t.Fatal(err)
		}
		all = append(all, Rights(m.GVK.Kind, role.Rules)...)
	}
	return all
}

// Account is a service account for a program, with roles of its own.
type Account struct {
	t               testing.TB
	client          *kube.Client
	namespace, name string
}

// NewAccount makes a service account that has all rights except those in without. It
// returns when the server applies them, and takes the kinds of the rights as owners.
func NewAccount(
	t testing.TB, client *kube.Client, config *rest.Config, namespace, name string, all []Right, without ...Right,
) Account {
	t.Helper()
	a := Account{t, client, namespace, name}
	account := new(corev1.ServiceAccount)
	account.Name = name
	_, err := kube.For[corev1.ServiceAccount](client).In(namespace).Create(t.Context(), account)
	a.ok(err)
	a.Grant(all, without...)
	a.bind()
	for _, r := range all {
		AwaitRight(t, client, namespace, name, r, !slices.Contains(without, r))
		if r.Verb == "update" && strings.HasSuffix(r.Resource, "/finalizers") {
			awaitOwner(t, client, config, namespace, r)
		}
	}
	return a
}

// Grant sets the account's roles to all rights except those in without.
func (a Account) Grant(all []Right, without ...Right) {
	a.t.Helper()
	of := metav1.ObjectMeta{Name: a.namespace}
	_, err := kube.For[rbacv1.ClusterRole](a.client).Apply(a.t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: of, Rules: Rules("ClusterRole", all, without...)})
	a.ok(err)
	_, err = kube.For[rbacv1.Role](a.client).In(a.namespace).Apply(a.t.Context(),
		&rbacv1.Role{ObjectMeta: of, Rules: Rules("Role", all, without...)})
	a.ok(err)
}

// bind binds the roles to the account until the test ends.
func (a Account) bind() {
	a.t.Helper()
	of := metav1.ObjectMeta{Name: a.namespace}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: a.namespace, Name: a.name}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.namespace}
	_, err := kube.For[rbacv1.ClusterRoleBinding](a.client).Apply(a.t.Context(),
		&rbacv1.ClusterRoleBinding{ObjectMeta: of, Subjects: subjects, RoleRef: ref})
	a.ok(err)
	ref.Kind = "Role"
	_, err = kube.For[rbacv1.RoleBinding](a.client).In(a.namespace).Apply(a.t.Context(),
		&rbacv1.RoleBinding{ObjectMeta: of, Subjects: subjects, RoleRef: ref})
	a.ok(err)
	a.t.Cleanup(func() {
		// A cluster-scoped object is not deleted with the namespace.
		_ = kube.For[rbacv1.ClusterRoleBinding](a.client).Delete(context.Background(), a.namespace)
		_ = kube.For[rbacv1.ClusterRole](a.client).Delete(context.Background(), a.namespace)
	})
}

// Kubeconfig writes a kubeconfig for the account that reaches the server through a proxy.
func (a Account) Kubeconfig(p *Proxy) string {
	a.t.Helper()
	return Kubeconfig(a.t, p.Config, a.namespace, Token(a.t, a.client, a.namespace, a.name))
}

func (a Account) ok(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
