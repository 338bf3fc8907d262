package plan_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
)

// Gadget is of a kind that is installed late.
type Gadget struct {
	kube.Object
	Spec struct {
		Size int `json:"size"`
	} `json:"spec"`
}

func (Gadget) GVK() kube.GVK {
	return kube.GVK{Group: "gadgets.example.com", Version: "v1", Kind: "Gadget"}
}

// A node of a kind that is not installed waits, and holds up no other. When the kind is
// installed, by somebody else or by another node of the plan, the node becomes ready. A node
// that needs the definition is not built before the server serves the kind.
func TestKindThatIsInstalledLate(t *testing.T) {
	s := newStubborn(t, true)
	s.finalizers(keeper)
	gadgets := kube.For[Gadget](s.op.shops.Client()).In(s.namespace)
	definitions := kube.For[crd.Definition](s.op.shops.Client())
	about := metav1.ObjectMeta{Name: "late"}
	gadget := func(p *plan.Plan) *plan.Node[Gadget] {
		return plan.Object(p, "gadget", gadgets, func(plan.Inputs) (*Gadget, error) {
			return &Gadget{Object: kube.Object{ObjectMeta: about}}, nil
		})
	}
	secret := func(p *plan.Plan) {
		plan.Object(p, "secret", s.op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
			return &corev1.Secret{ObjectMeta: about}, nil
		})
	}
	// run runs the plan and returns the states and messages of its nodes.
	run := func(describe func(p *plan.Plan)) (states, messages map[string]string) {
		t.Helper()
		shop, err := s.op.shops.Get(s.soon(), "stubborn")
		s.ok(err)
		p := plan.New(s.op.shops, shop, &shop.Status.Status)
		describe(p)
		_, err = p.Run(s.soon())
		s.ok(err)
		states, messages = make(map[string]string), make(map[string]string)
		for _, n := range shop.Status.Nodes {
			states[n.Name], messages[n.Name] = string(n.State), n.Message
		}
		return states, messages
	}
	// until runs the plan until a node is ready. It never fails meanwhile.
	until := func(node string, describe func(p *plan.Plan)) {
		t.Helper()
		kubetest.Eventually(t, node+" becomes ready", func() error {
			if states, messages := run(describe); states[node] != string(plan.Ready) {
				return fmt.Errorf("%v %v", states, messages)
			}
			return nil
		})
	}
	definition := func() *crd.Definition {
		d := crd.Of[Gadget](crd.Options{})
		s.ok(d.Err())
		return d
	}

	both := func(p *plan.Plan) { gadget(p); secret(p) }
	for range 2 {
		states, messages := run(both)
		if states["gadget"] != "Waiting" || messages["gadget"] != "its kind is not installed" || states["secret"] != "Ready" {
			t.Errorf("nodes are %v: %v", states, messages)
		}
	}
	s.ok(crd.Install(s.soon(), s.op.shops.Client(), definition()))
	until("gadget", both)
	if o, err := gadgets.Get(s.soon(), "late"); err != nil || len(o.OwnerReferences) != 1 {
		t.Errorf("the gadget is %+v: %v", o, err)
	}
	until("secret", secret) // the gadget leaves
	name := definition().Name
	s.ok(definitions.Delete(s.soon(), name))
	s.ok(definitions.UntilGone(s.soon(), name))

	built := 0
	needing := func(p *plan.Plan) {
		d := plan.Object(p, "definition", definitions, func(plan.Inputs) (*crd.Definition, error) { return definition(), nil })
		plan.Object(p, "gadget", gadgets, func(in plan.Inputs) (*Gadget, error) {
			built++
			established := false
			for _, c := range d.From(in).Status.Conditions {
				established = established || c.Type == "Established" && c.Status == "True"
			}
			if !established {
				t.Errorf("the gadget is built while the definition has %+v", d.From(in).Status.Conditions)
			}
			return &Gadget{Object: kube.Object{ObjectMeta: about}}, nil
		}).Needs(d)
	}
	states, messages := run(needing)
	if states["definition"] != "Waiting" || !strings.Contains(messages["definition"], "Established") || states["gadget"] != "Blocked" {
		t.Errorf("after the first run nodes are %v: %v", states, messages)
	}
	if built > 0 {
		t.Error("the gadget was built in the run that creates its definition")
	}
	until("gadget", needing)
	s.end(needing)
	s.ok(definitions.UntilGone(s.soon(), name))
}
