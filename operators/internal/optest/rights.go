package optest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// Right is one verb on one resource, in a role.
type Right struct {
	Role     string // the kind of the role: Role or ClusterRole
	Group    string
	Resource string // with its subresource
	Verb     string
	Name     string // of the object; empty: all objects
}

func (r Right) String() string {
	return strings.TrimSpace(r.Verb + " " + strings.TrimSuffix(r.Resource+"."+r.Group, ".") + " " + r.Name)
}

// Rights returns the rights that rules grant, one by one.
func Rights(role string, rules []rbacv1.PolicyRule) (all []Right) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, Right{role, rule.APIGroups[0], resource, verb, name})
				}
			}
		}
	}
	return all
}

// Sample returns some rights, at random. A test of each right takes minutes.
func Sample(all []Right) []Right {
	all = slices.Clone(all)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(6, len(all))]
}

// Each returns all rights.
func Each(all []Right) []Right { return all }

// Rules returns the rules that grant the rights of one kind of role, except those in
// without.
func Rules(role string, all []Right, without ...Right) (rules []rbacv1.PolicyRule) {
	for _, r := range all {
		if r.Role != role || slices.Contains(without, r) {
			continue
		}
		rule := rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{r.Verb}}
		if r.Name != "" {
			rule.ResourceNames = []string{r.Name}
		}
		rules = append(rules, rule)
	}
	return rules
}

// AwaitRight waits until the server allows or denies a right to a service account.
func AwaitRight(t testing.TB, client *kube.Client, namespace, account string, r Right, allowed bool) {
	t.Helper()
	resource, sub, _ := strings.Cut(r.Resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + namespace + ":" + account,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: sub, Name: r.Name,
		},
	}}
	kubetest.Eventually(t, fmt.Sprintf("the right to %s is there: %t", r, allowed), func() error {
		answer, err := kube.For[authorizationv1.SubjectAccessReview](client).Create(t.Context(), review)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.Allowed != allowed {
			return fmt.Errorf("%t: %s", answer.Status.Allowed, answer.Status.Reason)
		}
		return nil
	})
}

// awaitOwner waits until the server takes objects of a definition that was just installed as
// owners that block deletion. Its admission plugin OwnerReferencesPermissionEnforcement looks
// for kinds every ten seconds or so. Until then it forbids such owners to all except those who may
// update the finalizers of everything, as an administrator may.
func awaitOwner(t testing.TB, client *kube.Client, config *rest.Config, namespace string, of Right) {
	t.Helper()
	const user = "await-owner"
	resource, _, _ := strings.Cut(of.Resource, "/")
	definition, err := kube.For[crd.Definition](client).Get(t.Context(), resource+"."+of.Group)
	if apierrors.IsNotFound(err) {
		return // another server's, or Kubernetes' own
	} else if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: user}
	rules := []rbacv1.PolicyRule{
		{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
		{Verbs: []string{"update"}, APIGroups: []string{of.Group}, Resources: []string{resource + "/finalizers"}},
	}
	if _, err := kube.For[rbacv1.Role](client).In(namespace).Apply(
		t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules},
	); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.For[rbacv1.RoleBinding](client).In(namespace).Apply(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}); err != nil {
		t.Fatal(err)
	}
	as := rest.CopyConfig(config)
	as.Impersonate.UserName = user
	owned := kube.For[corev1.ConfigMap](Client(t, as)).In(namespace).With(kube.WriteOptions{DryRun: true})
	blocks := true
	o := new(corev1.ConfigMap)
	o.Name = "owned"
	o.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: of.Group + "/" + definition.Spec.Versions[0].Name, Kind: definition.Spec.Names.Kind,
		Name: "any", UID: "any", BlockOwnerDeletion: &blocks,
	}}
	kubetest.Eventually(t, "an object can have an owner of kind "+definition.Spec.Names.Kind, func() error {
		_, err := owned.Create(t.Context(), o)
		if err != nil && !apierrors.IsForbidden(err) {
			t.Fatalf("make an object of an owner of kind %s: %v", definition.Spec.Names.Kind, err)
		}
		return err
	})
}

// Token returns a token of a service account.
func Token(t testing.TB, client *kube.Client, namespace, account string) string {
	t.Helper()
	accounts := kube.For[corev1.ServiceAccount](client).In(namespace)
	request, err := kube.Sub[authenticationv1.TokenRequest](
		accounts, "token",
	).Create(t.Context(), account, new(authenticationv1.TokenRequest))
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}
