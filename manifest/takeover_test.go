package manifest

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// An operator whose handle takes over the fields of a predecessor can do so with the rights
// that follow from its controller, and without Needs.
func TestRightsToTakeOver(t *testing.T) {
	cluster, client := admin(t)
	namespace := cluster.Namespace(t)
	var used Audit
	config := &rest.Config{Host: cluster.Config().Host}
	config.CAData, config.CAFile = cluster.Config().CAData, cluster.Config().CAFile
	config.Wrap(used.Wrap)
	operator := func(g *gadgetry) (Operator, kube.Resource[Gadget]) {
		heir := g.gadgets.With(kube.WriteOptions{FieldManager: "heir", TakeOver: []string{"manager"}})
		op := g.operator(t)
		op.Needs = nil
		op.Controllers = []controller.Any{controller.Controller[Gadget]{Name: "heir", For: heir, Reconcile: g.reconcile}}
		return op, heir
	}
	op, _ := operator(newGadgetry(t, config, namespace))
	config.BearerToken = grantRights(t, client, op, grant{})
	_, heir := operator(newGadgetry(t, config, namespace))

	former := kube.For[Gadget](client).In(namespace).With(kube.WriteOptions{FieldManager: "manager"})
	o := new(Gadget)
	o.Name = "one"
	o, err := former.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Status.Seen = "by the predecessor"
	if err := former.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	mine := new(Gadget)
	mine.Name = "one"
	if err := heir.Status().Ensure(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if o, err = former.Get(t.Context(), "one"); err != nil || o.Status.Seen != "" {
		t.Errorf("the status is %+v, %v", o.Status, err)
	}
	if refused := used.Refused(); len(refused) > 0 {
		t.Errorf("refused: %s", refused)
	}
}

// A right that only a predecessor's objects need is granted, and an audit does not ask for
// its use.
func TestTakeOverAudited(t *testing.T) {
	client, err := kube.Config{Rest: nowhere()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	pods := kube.For[corev1.Pod](client).With(kube.WriteOptions{TakeOver: []string{"manager"}})
	o := Operator{Name: "farm", Image: "farm", Needs: []Rules{AppliesStatus(pods).Named("x")}}
	all, err := grants(o.needs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{
		{
			APIGroups: []string{""}, Resources: []string{"pods", "pods/status"}, Verbs: []string{"patch"},
			ResourceNames: []string{"x"},
		},
	}
	if got := policies(all); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	status := grant{resource: "pods/status", name: "x", verb: "patch"}
	main := grant{resource: "pods", name: "x", verb: "patch"}
	for _, grants := range []map[grant]bool{{status: true}, {status: true, main: true}} {
		used := Audit{used: grants}
		if err := used.Compare(o); err != nil {
			t.Error(err)
		}
	}
	o.Needs = append(o.Needs, Patches(pods).Named("x"))
	used := Audit{used: map[grant]bool{status: true}}
	if err := used.Compare(o); err == nil || err.Error() != "superfluous: the right to patch pods x" {
		t.Errorf("a declared right that is not used: %v", err)
	}
}
