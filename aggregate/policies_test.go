package aggregate_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// testPolicies restricts samples by a ValidatingAdmissionPolicy. The answers are the twin's.
func testPolicies(f *bench) {
	policies := kube.For[admissionregistrationv1.ValidatingAdmissionPolicy](f.client)
	bindings := kube.For[admissionregistrationv1.ValidatingAdmissionPolicyBinding](f.client)
	p := new(admissionregistrationv1.ValidatingAdmissionPolicy)
	p.Name = "unlucky." + f.namespace
	p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: f.rule(),
	}}}
	p.Spec.Validations = []admissionregistrationv1.Validation{{Expression: "object.spec.weight != 13", Message: "13 is unlucky"}}
	_, err := policies.Create(f.Context(), p)
	f.ok(err)
	defer func() { f.ok(policies.Delete(f.Context(), p.Name)) }()
	b := new(admissionregistrationv1.ValidatingAdmissionPolicyBinding)
	b.Name, b.Spec.PolicyName = p.Name, p.Name
	b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	b.Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: f.here()}
	_, err = bindings.Create(f.Context(), b)
	f.ok(err)
	defer func() { f.ok(bindings.Delete(f.Context(), b.Name)) }()
	f.refused("13 is unlucky")
}

// testWebhook asks a webhook about samples. The answers are the twin's.
func testWebhook(f *bench) {
	var asked atomic.Int64
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		asked.Add(1)
		var s Sample
		allowed := json.Unmarshal(review.Request.Object.Raw, &s) == nil && s.Spec.Weight != 13
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: allowed, Warnings: []string{"the hook was asked"},
			Result: &metav1.Status{Message: "the hook dislikes 13"},
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer hook.Close()
	all := kube.For[admissionregistrationv1.ValidatingWebhookConfiguration](f.client)
	c := new(admissionregistrationv1.ValidatingWebhookConfiguration)
	c.Name = "unlucky." + f.namespace
	none := admissionregistrationv1.SideEffectClassNone
	c.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "unlucky.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: f.here(),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: &hook.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
		},
		Rules: []admissionregistrationv1.RuleWithOperations{f.rule()},
	}}
	_, err := all.Create(f.Context(), c)
	f.ok(err)
	defer func() { f.ok(all.Delete(f.Context(), c.Name)) }()
	f.refused("the hook dislikes 13")
	if asked.Load() < 2 {
		f.Errorf("the hook was asked %d times", asked.Load())
	}
}

// rule matches the samples of both groups.
func (f *bench) rule() (r admissionregistrationv1.RuleWithOperations) {
	r.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	r.APIGroups, r.APIVersions, r.Resources = []string{group, twin}, []string{"*"}, []string{"samples"}
	return r
}

// here selects the namespace of the test.
func (f *bench) here() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": f.namespace}}
}

// refused waits until samples of the weight 13 are refused in both groups, and compares the answers.
func (f *bench) refused(why string) {
	f.Helper()
	post := func(g string, weight int) answer {
		object := sample(fmt.Sprint("weighs-", weight), fmt.Sprintf(`{"weight":%d,"height":100}`, weight))
		return f.do("POST", f.path(g, "?dryRun=All"), strings.ReplaceAll(object, "{g}", g))
	}
	for _, g := range []string{group, twin} {
		kubetest.Eventually(f, g+" refuses", func() error {
			if got := post(g, 13); !strings.Contains(got.Body, why) {
				return fmt.Errorf("status %d: %.300s", got.Code, got.Body)
			}
			return nil
		})
	}
	for _, weight := range []int{12, 13} {
		got, want := post(group, weight), post(twin, weight)
		if normal(got, group) != normal(want, twin) {
			f.Errorf("weight %d: %s, of the twin %s", weight, normal(got, group), normal(want, twin))
		}
		if (got.Code == http.StatusCreated) != (weight == 12) {
			f.Errorf("weight %d: %d %s", weight, got.Code, got.Body)
		}
	}
}
