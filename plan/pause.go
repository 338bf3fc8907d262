package plan

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
)

// Paused is the annotation of an owner whose plan must not be run. Any value but "false"
// pauses it. Children are neither applied nor deleted, things are neither observed nor
// changed, and the owner's status gets a condition Paused. The deletion of the owner works
// as ever. The counterpart of cluster-api is the annotation cluster.x-k8s.io/paused.
const Paused = "plan.pintle.dev/paused"

const pausedCondition = "Paused"

// IsPaused reports whether the owner has the annotation [Paused], with a value that pauses.
func (p *Plan) IsPaused() bool {
	value, ok := p.owner.GetAnnotations()[Paused]
	return ok && value != "false"
}

// pause says in the status that the plan is paused.
func (p *Plan) pause(ctx context.Context) error {
	controller.SetCondition(p.owner, &p.status.Conditions, metav1.Condition{
		Type: pausedCondition, Status: metav1.ConditionTrue, Reason: "Annotation", Message: "the owner has the annotation " + Paused,
	})
	p.status.Summary = pausedCondition
	p.status.Since = meta.FindStatusCondition(p.status.Conditions, pausedCondition).LastTransitionTime
	return p.ensureOwner(ctx)
}

// resume takes the condition away.
func (s *Status) resume() { meta.RemoveStatusCondition(&s.Conditions, pausedCondition) }
