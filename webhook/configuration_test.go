package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/internal/jsonfields"
	"github.com/pintle-go/pintle/kube"
)

func allow[T any](context.Context, *T) error { return nil }

func keep[T any](context.Context, *T, *T) error { return nil }

var service = Registration{Name: "library", Namespace: "library-system", Service: "library"}

func rendered(t testing.TB, r Registration, hooks ...Hook) string {
	t.Helper()
	all, err := r.Configurations(hooks...)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, c := range all {
		text, err := jsonfields.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		text, err = yaml.JSONToYAML(text)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n" + string(text))
	}
	return out.String()
}

// Every field that the API server sets by default is there, and caBundle is not.
func TestConfigurations(t *testing.T) {
	h := offline(t)
	got := rendered(t, service,
		Validate(h.books, Checks[book]{Create: allow[book], Update: keep[book]}, Settings{
			When: map[string]string{"z": "true", "not-us": "request.userInfo.username != 'us'"}, SideEffects: true,
		}),
		Mutate(h.pods.In("shop", "bar"), allow[corev1.Pod], Settings{Objects: "app=web", Timeout: 9 * time.Second, FailurePolicy: Fail}),
	)
	const want = `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: library
webhooks:
- admissionReviewVersions:
  - v1
  clientConfig:
    service:
      name: library
      namespace: library-system
      path: /webhook/validate/library.example.com/v1/book
      port: 443
  failurePolicy: Fail
  matchConditions:
  - expression: request.userInfo.username != 'us'
    name: not-us
  - expression: "true"
    name: z
  matchPolicy: Equivalent
  name: validate-v1.book.library.example.com.library
  namespaceSelector: {}
  objectSelector: {}
  rules:
  - apiGroups:
    - library.example.com
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - books
    scope: Namespaced
  sideEffects: NoneOnDryRun
  timeoutSeconds: 5
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: library
webhooks:
- admissionReviewVersions:
  - v1
  clientConfig:
    service:
      name: library
      namespace: library-system
      path: /webhook/mutate/core/v1/pod
      port: 443
  failurePolicy: Fail
  matchPolicy: Equivalent
  name: mutate-v1.pod.core.library
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values:
      - bar
      - shop
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      - kube-node-lease
      - kube-public
      - kube-system
      - library-system
  objectSelector:
    matchLabels:
      app: web
  reinvocationPolicy: IfNeeded
  rules:
  - apiGroups:
    - ""
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - pods
    scope: Namespaced
  sideEffects: None
  timeoutSeconds: 9
`
	if got != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestDevelopment(t *testing.T) {
	h := offline(t)
	r := Registration{Name: "library-dev", URL: "https://127.0.0.1:9443/", CABundle: []byte("x"), Development: true}
	all, err := r.Configurations(Default(h.books, allow[book]))
	if err != nil || len(all) != 1 || len(all[0].Webhooks) != 1 {
		t.Fatalf("%v %v", all, err)
	}
	got := all[0].Webhooks[0]
	want := ClientConfig{URL: "https://127.0.0.1:9443/webhook/default/library.example.com/v1/book", CABundle: []byte("x")}
	if got.FailurePolicy != Ignore || got.TimeoutSeconds != 2 || !reflect.DeepEqual(got.ClientConfig, want) {
		t.Errorf("got %+v", got)
	}
	if none, err := r.Configurations(); none != nil || err != nil {
		t.Errorf("no hooks make %v, %v", none, err)
	}
}

// The API server's types read the configurations, and no field is left for its defaults.
func TestConfigurationsAreComplete(t *testing.T) {
	h := offline(t)
	all, err := service.Configurations(
		Validate(h.books, Checks[book]{Create: allow[book], Update: keep[book], Delete: allow[book]}),
		Validate(Sub[autoscalingv1.Scale](h.books, "scale"), Checks[autoscalingv1.Scale]{Update: keep[autoscalingv1.Scale]}),
		Validate(Sub[policyv1.Eviction](h.pods, "eviction"), Checks[policyv1.Eviction]{Create: allow[policyv1.Eviction]}),
		Validate(Sub[corev1.PodExecOptions](h.pods, "exec"), Checks[corev1.PodExecOptions]{Connect: allow[corev1.PodExecOptions]}),
		Validate(h.pods, Checks[corev1.Pod]{Create: allow[corev1.Pod]}),
		Default(h.books, allow[book]),
		Mutate(h.pods, allow[corev1.Pod]),
		Mutate(Sub[corev1.Pod](h.pods, "status"), allow[corev1.Pod]),
		Mutate(Sub[policyv1.Eviction](h.pods, "eviction"), allow[policyv1.Eviction]),
	)
	if err != nil {
		t.Fatal(err)
	}
	names, rules := map[string]bool{}, []string{}
	for _, c := range all {
		text, err := jsonfields.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		var is struct {
			metav1.TypeMeta
			metav1.ObjectMeta `json:"metadata"`
			// The type has all fields of the other one.
			Webhooks []admissionregistrationv1.MutatingWebhook `json:"webhooks"`
		}
		if err := d.Decode(&is); err != nil {
			t.Fatal(err)
		}
		for _, w := range is.Webhooks {
			if names[c.Kind+w.Name] || len(strings.Split(w.Name, ".")) < 3 || len(validation.IsDNS1123Subdomain(w.Name)) > 0 {
				t.Errorf("the name %s", w.Name)
			}
			names[c.Kind+w.Name] = true
			mutating := c.Kind == mutatingKind
			if w.FailurePolicy == nil || w.MatchPolicy == nil || w.NamespaceSelector == nil || w.ObjectSelector == nil ||
				w.SideEffects == nil || w.TimeoutSeconds == nil || w.ClientConfig.Service.Port == nil ||
				w.Rules[0].Scope == nil || (w.ReinvocationPolicy != nil) != mutating || w.ClientConfig.CABundle != nil {
				t.Errorf("%s is not complete: %+v", w.Name, w)
			}
			rules = append(rules, fmt.Sprintf("%s %s %s %s %d",
				w.Rules[0].Operations, w.Rules[0].APIGroups, w.Rules[0].Resources, *w.FailurePolicy, *w.TimeoutSeconds))
		}
	}
	want := []string{
		"[CREATE UPDATE DELETE] [library.example.com] [books] Fail 5",
		"[UPDATE] [library.example.com] [books/scale] Fail 5",
		"[CREATE] [] [pods/eviction] Ignore 2",
		"[CONNECT] [] [pods/exec] Ignore 2",
		"[CREATE] [] [pods] Ignore 2",
		"[CREATE UPDATE] [library.example.com] [books] Fail 5",
		"[CREATE UPDATE] [] [pods] Ignore 2",
		"[UPDATE] [] [pods/status] Ignore 2",
		"[CREATE] [] [pods/eviction] Ignore 2",
	}
	if !slices.Equal(rules, want) {
		t.Errorf("got  %q\nwant %q", rules, want)
	}
}

// Nothing that the program or the cluster needs to start matches a rule for a kind of Kubernetes.
func TestNothingOfOursMatches(t *testing.T) {
	h := offline(t)
	client := h.pods.Client()
	hooks := []Hook{
		Mutate(h.pods, allow[corev1.Pod]),
		Mutate(kube.For[appsv1.Deployment](client), allow[appsv1.Deployment]),
		Mutate(kube.For[appsv1.ReplicaSet](client), allow[appsv1.ReplicaSet]),
		Mutate(kube.For[corev1.Secret](client), allow[corev1.Secret]),
		Mutate(kube.For[corev1.ConfigMap](client), allow[corev1.ConfigMap]),
		Mutate(kube.For[corev1.ServiceAccount](client), allow[corev1.ServiceAccount]),
		Mutate(kube.For[eventsv1.Event](client), allow[eventsv1.Event]),
		Mutate(Sub[corev1.Pod](h.pods, "status"), allow[corev1.Pod]),
		Validate(kube.For[corev1.Namespace](client), Checks[corev1.Namespace]{Create: allow[corev1.Namespace]}),
	}
	all, err := service.Configurations(hooks...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		for _, w := range c.Webhooks {
			selector, err := metav1.LabelSelectorAsSelector(&w.NamespaceSelector)
			if err != nil {
				t.Fatal(err)
			}
			for _, ns := range []string{"library-system", "kube-system", "kube-node-lease", "kube-public"} {
				if selector.Matches(labels.Set{nameLabel: ns}) {
					t.Errorf("%s is called for %s", w.Name, ns)
				}
			}
			if !selector.Matches(labels.Set{nameLabel: "shop"}) {
				t.Errorf("%s is not called for the others", w.Name)
			}
			for _, list := range [][]string{w.Rules[0].APIGroups, w.Rules[0].APIVersions, w.Rules[0].Resources, w.Rules[0].Operations} {
				if slices.Contains(list, "*") {
					t.Errorf("%s has a wildcard", w.Name)
				}
			}
		}
	}
	refused := map[string]Hook{
		"lease":  Mutate(kube.For[coordinationv1.Lease](client), allow[coordinationv1.Lease]),
		"node":   Mutate(kube.For[corev1.Node](client), allow[corev1.Node]),
		"status": Mutate(Sub[corev1.Node](kube.For[corev1.Node](client), "status"), allow[corev1.Node]),
	}
	for _, gvk := range []kube.GVK{
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
		{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"},
		{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	} {
		view := kube.ViewOf[kube.Object](client, kube.Kind{GVK: gvk})
		refused[gvk.Kind] = Mutate(view, allow[kube.Object], Settings{Objects: "a=b"})
	}
	for name, hook := range refused {
		if err := Check(hook); err == nil || !strings.Contains(err.Error(), "if the hook is away, the cluster cannot recover") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	h := offline(t)
	books := func(s Settings) Hook { return Default(h.books, allow[book], s) }
	pods := func(s Settings) Hook { return Mutate(h.pods, allow[corev1.Pod], s) }
	roles := kube.For[rbacv1.ClusterRole](h.pods.Client())
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint("c", i)] = "true"
	}
	for want, hook := range map[string]Hook{
		"make webhook to default Pod: the kind is not the program's own: use Mutate":                                               Default(h.pods, allow[corev1.Pod]),
		"make webhook to validate Book: it has no function":                                                                        Validate(h.books, Checks[book]{}),
		"make webhook to validate an unknown kind: the handle is nil":                                                              Validate[book](nil, Checks[book]{}),
		"make webhook to validate an unknown kind/scale: the handle is nil":                                                        Validate(Sub[book](nil, "scale"), Checks[book]{}),
		"make webhook to validate Book: a subresource is missing, which Connect needs":                                             Validate(h.books, Checks[book]{Connect: allow[book]}),
		`make webhook to validate Book/a/b: "a/b" cannot be a subresource`:                                                         Validate(Sub[book](h.books, "a/b"), Checks[book]{Update: keep[book]}),
		"make webhook to mutate Pod/exec: the options of a connection cannot be changed: use Validate":                             Mutate(Sub[corev1.PodExecOptions](h.pods, "exec"), allow[corev1.PodExecOptions]),
		"make webhook to default Book: 2 settings were given, and a hook has one":                                                  Default(h.books, allow[book], Settings{}, Settings{}),
		`make webhook to default Book: parse label selector "a in": `:                                                              books(Settings{Objects: "a in"}),
		`make webhook to default Book: parse label selector "!": `:                                                                 books(Settings{Namespaces: "!"}),
		`make webhook to default Book: the failure policy "Abort" is neither Fail nor Ignore`:                                      books(Settings{FailurePolicy: "Abort"}),
		"make webhook to default Book: the timeout 1.5s is not a number of seconds from 1 to 30":                                   books(Settings{Timeout: 1500 * time.Millisecond}),
		"make webhook to default Book: the timeout 31s is not a number of seconds from 1 to 30":                                    books(Settings{Timeout: 31 * time.Second}),
		"make webhook to default Book: 65 conditions are more than 64":                                                             books(Settings{When: many}),
		`make webhook to default Book: the condition "a" is empty`:                                                                 books(Settings{When: map[string]string{"a": ""}}),
		`make webhook to default Book: the condition's name "a b": `:                                                               books(Settings{When: map[string]string{"a b": "true"}}),
		"make webhook to mutate Pod: the failure policy Fail for a kind of Kubernetes needs a selector: set Objects or Namespaces": pods(Settings{FailurePolicy: Fail}),
		"make webhook to mutate ClusterRole: the failure policy Fail for a kind of Kubernetes needs a selector: ": Mutate(roles, allow[rbacv1.ClusterRole],
			Settings{FailurePolicy: Fail, Namespaces: "a=b"}),
	} {
		if err := Check(hook); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	for name, hook := range map[string]Hook{
		"namespaces": pods(Settings{FailurePolicy: Fail, Namespaces: "a=b"}),
		"objects":    Mutate(roles, allow[rbacv1.ClusterRole], Settings{FailurePolicy: Fail, Objects: "a=b"}),
		"seconds":    books(Settings{Timeout: 30 * time.Second}),
	} {
		if err := Check(hook); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRegistrationMistakes(t *testing.T) {
	h := offline(t)
	unknown := kube.For[book](h.pods.Client())
	for want, r := range map[string]Registration{
		`render the webhooks: the name "": `:                                                 {Service: "a", Namespace: "b"},
		"render the webhooks: set either Service or URL":                                     {Name: "a"},
		"render the webhooks: the namespace is missing":                                      {Name: "a", Service: "a"},
		"render the webhooks: 70000 is not a port":                                           {Name: "a", Service: "a", Namespace: "b", Port: 70000},
		`render the webhooks: "http://a" is not the URL `:                                    {Name: "a", URL: "http://a"},
		"render the webhook to default Book: the plural or the scope of Book is not known: ": {Name: "a", Service: "a", Namespace: "b"},
	} {
		if _, err := r.Configurations(Default(unknown, allow[book])); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	r := service
	r.Kinds = []kube.Kind{{GVK: book{}.GVK(), Plural: "books", Scope: kube.ClusterScoped}}
	all, err := r.Configurations(Default(unknown, allow[book]))
	if err != nil || all[0].Webhooks[0].Rules[0].Scope != "Cluster" || all[0].Webhooks[0].Rules[0].Resources[0] != "books" {
		t.Errorf("%+v %v", all, err)
	}
}
