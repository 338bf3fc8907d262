package kube_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// statusPredecessor writes the status of Deployments as an operator does that was moved.
type statusPredecessor struct {
	*server
	deployments, former kube.Resource[appsv1.Deployment]
}

func startStatusPredecessor(t *testing.T) statusPredecessor {
	t.Helper()
	s := start(t)
	all := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	return statusPredecessor{s, all, all.With(kube.WriteOptions{FieldManager: "manager"})}
}

// updates makes a Deployment whose status the predecessor has updated.
func (p statusPredecessor) updates(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	d := got(p.former.Create(soon(t), webDeployment(name)))(t)
	d.Status = formerStatus()
	must(t, p.former.Status().Update(soon(t), d))
	return got(p.deployments.Get(soon(t), name))(t)
}

func formerStatus() appsv1.DeploymentStatus {
	return appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{
		{Type: "Old", Status: "True"}, {Type: "Ready", Status: "True"},
	}}
}

func webDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": "x"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}
}

// conditions returns the types of a Deployment's conditions.
func conditions(d *appsv1.Deployment) string {
	var all []string
	for _, c := range d.Status.Conditions {
		all = append(all, string(c.Type))
	}
	return strings.Join(all, " ")
}

// owns reports whether a manager owns fields of the status of an object.
func owns(o metav1.Object, manager string) bool {
	for _, m := range o.GetManagedFields() {
		if m.Manager == manager && m.Subresource == "status" {
			return true
		}
	}
	return false
}

// deploymentStatus has some of the fields of a Deployment.
type deploymentStatus struct {
	kube.Object
	Status struct {
		ObservedGeneration int64                        `json:"observedGeneration,omitempty"`
		Conditions         []appsv1.DeploymentCondition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

// Every apply of a status takes over the status fields of a predecessor, whichever method
// sends it: the fields that it does not set are removed.
func TestTakeOverStatus(t *testing.T) {
	p := startStatusPredecessor(t)
	take := kube.WriteOptions{FieldManager: "heir", TakeOver: []string{"manager"}}
	heir := p.deployments.With(take)
	views := kube.ViewOf[deploymentStatus](p.Client, kube.KindOf[appsv1.Deployment]()).In(p.namespace).With(take)
	mine := func(name string, status appsv1.DeploymentStatus) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: status}
		d.Kind, d.APIVersion = "Deployment", "apps/v1"
		return d
	}
	view := func(name string, status appsv1.DeploymentStatus) *deploymentStatus {
		o := new(deploymentStatus)
		o.Name, o.Status.ObservedGeneration, o.Status.Conditions = name, status.ObservedGeneration, status.Conditions
		return o
	}
	ways := []struct {
		name  string
		write func(name string, status appsv1.DeploymentStatus) error
	}{
		{"apply", func(name string, is appsv1.DeploymentStatus) error {
			return heir.Status().Apply(soon(t), mine(name, is))
		}},
		{"ensure", func(name string, is appsv1.DeploymentStatus) error {
			return heir.Status().Ensure(soon(t), mine(name, is))
		}},
		{"view-apply", func(name string, is appsv1.DeploymentStatus) error {
			return views.Status().Apply(soon(t), view(name, is))
		}},
		{"view-ensure", func(name string, is appsv1.DeploymentStatus) error {
			return views.Status().Ensure(soon(t), view(name, is))
		}},
		{"patch", func(name string, is appsv1.DeploymentStatus) error {
			body, err := encodeStatus(mine(name, is))
			if err != nil {
				return err
			}
			return heir.Status().Patch(soon(t), name, types.ApplyYAMLPatchType, body)
		}},
	}
	statuses := map[string]appsv1.DeploymentStatus{
		"less":    {ObservedGeneration: 1, Conditions: formerStatus().Conditions[1:]},
		"same":    formerStatus(),
		"nothing": {},
	}
	check := func(t *testing.T, stores string) {
		for _, way := range ways {
			for what, status := range statuses {
				t.Run(way.name+" "+what, func(t *testing.T) {
					name := strings.Join([]string{way.name, what, stores}, "-")
					was := p.updates(t, name)
					must(t, way.write(name, status))
					is := got(p.deployments.Get(soon(t), name))(t)
					want := conditions(mine(name, status))
					if conditions(is) != want || is.Status.ObservedGeneration != status.ObservedGeneration {
						t.Errorf("the status is %+v", is.Status)
					}
					if !owns(was, "manager") || owns(is, "manager") {
						t.Error("the predecessor still owns fields of the status")
					}
					if !strings.HasSuffix(way.name, "ensure") || stores == "none" {
						return
					}
					if calls := p.during(func() { must(t, way.write(name, status)) }); len(calls) > 0 {
						t.Errorf("once it is taken over, Ensure makes requests: %s", rows(calls))
					}
					less := appsv1.DeploymentStatus{ObservedGeneration: 1}
					must(t, way.write(name, less))
					if is := got(p.deployments.Get(soon(t), name))(t); conditions(is) != "" {
						t.Errorf("a status that was taken over keeps the conditions %q", conditions(is))
					}
				})
			}
		}
	}
	t.Run("without a store", func(t *testing.T) { check(t, "none") })
	filled(t, p.deployments.ReadOnly())
	filled(t, views.ReadOnly())
	t.Run("with a store", func(t *testing.T) { check(t, "store") })
}

func encodeStatus(d *appsv1.Deployment) ([]byte, error) {
	var b strings.Builder
	b.WriteString(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + d.Name + `"},"status":{`)
	if d.Status.ObservedGeneration != 0 {
		b.WriteString(`"observedGeneration":1`)
	}
	for i, c := range d.Status.Conditions {
		b.WriteString([]string{`,"conditions":[`, `,`}[min(i, 1)])
		b.WriteString(`{"type":"` + string(c.Type) + `","status":"` + string(c.Status) + `"}`)
	}
	if len(d.Status.Conditions) > 0 {
		b.WriteString("]")
	}
	b.WriteString("}}")
	return []byte(b.String()), nil
}

// A predecessor may have applied, under a name of its own: its fields are taken over as
// those are that others updated.
func TestTakeOverFromApply(t *testing.T) {
	p := startStatusPredecessor(t)
	old := p.deployments.With(kube.WriteOptions{FieldManager: "old"})
	heir := p.deployments.With(kube.WriteOptions{FieldManager: "heir", TakeOver: []string{"old"}})
	was := webDeployment("d")
	was.Labels = map[string]string{"old": "yes", "kept": "yes"}
	was.Status = formerStatus()
	got(old.Apply(soon(t), was))(t)
	must(t, old.Status().Apply(soon(t), was))
	wanted := webDeployment("d")
	wanted.Labels = map[string]string{"kept": "yes"}
	wanted.Status.Conditions = formerStatus().Conditions[1:]
	got(heir.Apply(soon(t), wanted))(t)
	must(t, heir.Status().Apply(soon(t), wanted))
	is := got(p.deployments.Get(soon(t), "d"))(t)
	if len(is.Labels) != 1 || conditions(is) != "Ready" {
		t.Errorf("the labels are %v, the conditions %q", is.Labels, conditions(is))
	}
	for _, m := range is.ManagedFields {
		if m.Manager == "old" {
			t.Errorf("the predecessor still owns %s", m.FieldsV1.GetRawBytes())
		}
	}
}

// If the server refuses to take the status over, each call returns the error, and the first
// call that it allows takes the status over.
func TestTakeOverStatusRefused(t *testing.T) {
	p := startStatusPredecessor(t)
	config := p.cluster.Config()
	config.Impersonate.UserName = p.user(t, "apps", "deployments/status", "patch")
	less := p.connect(t, config)
	take := kube.WriteOptions{FieldManager: "heir", TakeOver: []string{"manager"}}
	mine := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Status: formerStatus()}
	mine.Status.Conditions = mine.Status.Conditions[1:]
	p.updates(t, "d")
	refused := kube.For[appsv1.Deployment](less).In(p.namespace).With(take)
	check := func(t *testing.T, heir kube.Resource[appsv1.Deployment], why string) {
		t.Helper()
		for range 3 {
			err := heir.Status().Ensure(soon(t), mine)
			if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), why) {
				t.Errorf("the error is %v", err)
			}
		}
	}
	// Without the right to patch the object.
	check(t, refused, "cannot patch resource")

	// A policy denies updates of the object, as a webhook may do.
	heir := p.deployments.With(take)
	filled(t, p.deployments.ReadOnly())
	allow := p.denies(t)
	check(t, heir, "no updates")
	if is := got(p.deployments.Get(soon(t), "d"))(t); conditions(is) != "Old Ready" || !owns(is, "manager") {
		t.Errorf("the conditions are %q", conditions(is))
	}
	allow()
	kubetest.Eventually(t, "the status is taken over", func() error { return heir.Status().Ensure(soon(t), mine) })
	if is := got(p.deployments.Get(soon(t), "d"))(t); conditions(is) != "Ready" || owns(is, "manager") {
		t.Errorf("the conditions are %q", conditions(is))
	}
}

// denies makes the server deny updates of the Deployments, until the caller allows them.
func (p statusPredecessor) denies(t *testing.T) (allow func()) {
	t.Helper()
	policies := kube.For[admissionv1.ValidatingAdmissionPolicy](p.Client)
	bindings := kube.For[admissionv1.ValidatingAdmissionPolicyBinding](p.Client)
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	fail := admissionv1.Fail
	policy.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail,
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule: admissionv1.Rule{
					APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
				},
			},
		}}},
		Validations: []admissionv1.Validation{{
			Expression: "object.metadata.namespace != '" + p.namespace + "'", Message: "no updates",
		}},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	binding.Spec.PolicyName = p.namespace
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	got(policies.Create(soon(t), policy))(t)
	got(bindings.Create(soon(t), binding))(t)
	allow = func() {
		_ = bindings.Delete(context.Background(), p.namespace)
		_ = policies.Delete(context.Background(), p.namespace)
	}
	t.Cleanup(allow)
	got(p.deployments.Create(soon(t), webDeployment("probe")))(t)
	kubetest.Eventually(t, "updates are denied", func() error {
		_, err := p.deployments.Patch(soon(t), "probe", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"1"}}}`))
		if err == nil {
			_, err = p.deployments.Patch(soon(t), "probe", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))
		}
		if err == nil {
			return errors.New("an update was accepted")
		}
		return nil
	})
	return allow
}
