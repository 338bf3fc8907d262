package optest

import (
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/pintle-go/pintle/kube"
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
	for deadline := time.Now().Add(expectTime); ; time.Sleep(20 * time.Millisecond) {
		answer, err := kube.For[authorizationv1.SubjectAccessReview](client).Create(t.Context(), review)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.Allowed == allowed {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the right to %s: %v: %s", r, answer.Status.Allowed, answer.Status.Reason)
		}
	}
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
