package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// The tests of this file are the statements of docs/from-controller-runtime.md about an
// operator that runs while it is moved.

// former returns the definition of the predecessor, as controller-gen has made it.
func former(t *testing.T) *crd.Definition {
	t.Helper()
	text, err := os.ReadFile("testdata/sites.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := new(crd.Definition)
	if err := yaml.UnmarshalStrict(text, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Objects of the predecessor fit the new definition, and after a rollback the other way round.
func TestDefinitionOfPredecessor(t *testing.T) {
	if breaks := crd.Compare(former(t), definition); len(breaks) > 0 {
		t.Errorf("the switch: %q", breaks)
	}
	if breaks := crd.Compare(definition, former(t)); len(breaks) > 0 {
		t.Errorf("the rollback: %q", breaks)
	}
}

// kubectl apply --server-side of the new definition is a conflict if another program has
// applied the old one, and goes through with --force-conflicts. So does the way back.
func TestDefinitionApplied(t *testing.T) {
	_, client, ctx := connect(t, kubetest.Options{ServerOnly: true, Private: true})
	definitions := kube.For[crd.Definition](client, kube.Kind{Plural: "customresourcedefinitions", Scope: kube.ClusterScoped})
	helm := definitions.With(kube.WriteOptions{FieldManager: "helm"})
	if _, err := helm.Create(ctx, former(t)); err != nil {
		t.Fatal(err)
	}
	kubectl := definitions.With(kube.WriteOptions{FieldManager: "kubectl", NoForce: true})
	if _, err := kubectl.Apply(ctx, definition); !apierrors.IsConflict(err) {
		t.Errorf("without force: %v", err)
	}
	force := definitions.With(kube.WriteOptions{FieldManager: "kubectl"})
	for _, d := range []*crd.Definition{definition, former(t)} {
		if _, err := force.Apply(ctx, d); err != nil {
			t.Errorf("with force: %v", err)
		}
	}
}

// A Deployment keeps its selector: manifests with the name and the namespace of the
// predecessor's Deployment are refused until that is deleted.
func TestSelectorOfPredecessor(t *testing.T) {
	cluster, client, ctx := connect(t, kubetest.Options{Nodes: 1})
	deployments := kube.For[appsv1.Deployment](client).In(cluster.Namespace(t))
	servers := func(labels map[string]string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "site-operator"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "example.com/manager"}}},
			},
		}}
	}
	kubebuilder := map[string]string{"control-plane": "controller-manager", "app.kubernetes.io/name": "site"}
	if _, err := deployments.Create(ctx, servers(kubebuilder)); err != nil {
		t.Fatal(err)
	}
	op, err := describe(client)
	if err != nil {
		t.Fatal(err)
	}
	ours := servers(op.Labels())
	if _, err := deployments.Apply(ctx, ours); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "field is immutable") {
		t.Errorf("beside it: %v", err)
	}
	if err := deployments.Delete(ctx, ours.Name); err != nil {
		t.Fatal(err)
	}
	if err := deployments.UntilGone(ctx, ours.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.Apply(ctx, servers(op.Labels())); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// The operator takes over the fields that its predecessor has written into the children and
// into the status. The predecessor can write again after a rollback.
func TestFieldsOfPredecessor(t *testing.T) {
	cluster, client, ctx := connect(t, kubetest.Options{Nodes: 1})
	if err := crd.Install(ctx, client, definition); err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace(t)
	manager := kube.WriteOptions{FieldManager: "manager"}
	sites := kube.For[Site](client).In(namespace)
	site := new(Site)
	site.Name, site.Spec.Pages = "docs", "pages"
	site, err := sites.Create(ctx, site)
	if err != nil {
		t.Fatal(err)
	}
	site.Status.Conditions = []metav1.Condition{{
		Type: "Old", Status: metav1.ConditionTrue, Reason: "Predecessor", LastTransitionTime: metav1.Now(),
	}}
	if err := sites.With(manager).Status().Update(ctx, site); err != nil {
		t.Fatal(err)
	}
	deployments := kube.For[appsv1.Deployment](client).In(namespace)
	old := deployment(site, "1")
	old.Spec.Template.Annotations["example.com/old"] = "yes"
	if err := kube.SetController(sites, site, deployments, old); err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.With(manager).Create(ctx, old); err != nil {
		t.Fatal(err)
	}

	heir := kube.WriteOptions{TakeOver: []string{"manager"}}
	op := operator{
		sites:       kube.For[Site](client).With(heir),
		deployments: kube.For[appsv1.Deployment](client).With(heir),
	}
	child := deployment(site, "2")
	if err := kube.SetController(op.sites, site, op.deployments, child); err != nil {
		t.Fatal(err)
	}
	d, err := op.deployments.Ensure(ctx, child)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := d.Spec.Template.Annotations["example.com/old"]; ok || d.Spec.Template.Annotations["example.com/pages"] != "2" {
		t.Errorf("the annotations are %v", d.Spec.Template.Annotations)
	}
	if slices.ContainsFunc(d.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == "manager" }) {
		t.Error("the predecessor still owns fields of the child")
	}
	site.Status.Conditions = nil // it begins with an empty status
	if err := op.report(ctx, site, metav1.ConditionTrue, "Servers", "1 of 1 servers are ready"); err != nil {
		t.Fatal(err)
	}
	if site, err = sites.Get(ctx, site.Name); err != nil {
		t.Fatal(err)
	}
	if c := site.Status.Conditions; len(c) != 1 || c[0].Type != "Ready" {
		t.Errorf("the conditions are %+v", c)
	}

	_, err = deployments.With(manager).Modify(ctx, "docs", func(d *appsv1.Deployment) error {
		d.Spec.Template.Annotations["example.com/pages"] = "3"
		return nil
	})
	if err != nil {
		t.Errorf("the rollback: %v", err)
	}
}
