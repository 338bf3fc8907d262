package plan_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/plan"
)

// A selector with an empty list of expressions is that without a list: it does not stop the
// replacement of a StatefulSet.
func TestEmptyMatchExpressions(t *testing.T) {
	t.Parallel()
	s := newStubborn(t, true)
	policy := appsv1.OrderedReadyPodManagement
	describe := func(p *plan.Plan) {
		plan.Object(p, "set", s.op.statefulSets, func(plan.Inputs) (*appsv1.StatefulSet, error) {
			o := s.set("1Gi")
			o.Spec.PodManagementPolicy = policy
			o.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{}
			return o, nil
		})
	}
	s.ok(s.converge(describe))
	policy = appsv1.ParallelPodManagement
	s.ok(s.converge(describe))
}
