package plan

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
)

// detailsLast is how long the details of a node that has begun to wait are not written. As
// a rule they change soon, or the node becomes ready.
const detailsLast = 5 * time.Second

// written is the plan's part of the owner's status as the cluster has it.
type written struct {
	status Status
	// whole says that this run wrote the rest of the owner's status as well.
	whole bool
}

// copied returns a copy of which a run changes no part.
func (s *Status) copied() Status {
	c := *s
	c.Conditions = slices.Clone(s.Conditions)
	return c
}

// store writes the owner's status in the middle of a run.
func (r *run) store(ctx context.Context) error {
	p := r.plan
	r.crew.staff()
	r.enterNew()
	p.status.Nodes = r.inventory.status(p.nodes)
	if !meta.IsStatusConditionTrue(p.status.Conditions, "Ready") {
		p.status.summarize(p.owner) // an owner that is ready may still be so at the end
	}
	if err := p.ensureOwner(ctx); err != nil {
		return err
	}
	r.written = written{p.status.copied(), true}
	for _, rec := range r.inventory.records {
		rec.stored = rec.Kind != ""
	}
	return nil
}

// write writes the owner's status at the end of a run. It leaves out the details of nodes
// that have just begun to wait.
func (r *run) write(ctx context.Context) error {
	p := r.plan
	r.enterNew()
	if p.status.Nodes = r.written.status.Nodes; !r.inventory.isStored(p.status.Nodes, p.nodes) {
		p.status.Nodes = r.inventory.status(p.nodes)
	}
	p.status.summarize(p.owner)
	left := p.status.detailsLeft(&r.written.status, time.Now())
	switch {
	case left == 0:
		return p.ensureOwner(ctx)
	case !r.written.whole || p.Report != nil:
		is := *p.status
		*p.status = r.written.status.copied()
		err := p.ensureOwner(ctx)
		*p.status = is
		if err != nil {
			return err
		}
	}
	r.lookIn(left)
	return nil
}

// refuse says in the status that the plan is wrong, and returns the error.
func (p *Plan) refuse(ctx context.Context, wrong error) error {
	if p.owner.GetUID() == "" {
		return controller.Terminal(wrong)
	}
	was := p.Monitor.glimpse(p.status)
	p.status.resume()
	c := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "WrongPlan", Message: short(wrong.Error())}
	controller.SetCondition(p.owner, &p.status.Conditions, c)
	c.Type, c.Status = "Degraded", metav1.ConditionTrue
	controller.SetCondition(p.owner, &p.status.Conditions, c)
	p.status.Summary = cut(wrong.Error())
	p.status.Since = meta.FindStatusCondition(p.status.Conditions, "Ready").LastTransitionTime
	if err := p.ensureOwner(ctx); err != nil {
		return join([]error{controller.Terminal(wrong), err}, false)
	}
	p.Monitor.saw(p, was)
	return controller.Terminal(wrong)
}

// enterNew gives a state to the nodes that have none yet.
func (r *run) enterNew() {
	for _, n := range r.plan.nodes {
		switch {
		case n.record == nil || n.record.State != "":
		case !n.visited && len(n.unready()) > 0:
			n.record.enter(Blocked, blockedBy(n.unready()), r.now)
		default:
			n.record.enter(Waiting, "", r.now)
		}
	}
}

// detailsLeft returns the time after which a status must be written of which the cluster
// has an earlier one. It is 0 unless they differ only in the details of nodes that have just
// begun to wait.
func (s *Status) detailsLeft(was *Status, now time.Time) (left time.Duration) {
	same := len(s.Nodes) == len(was.Nodes) && s.ReadyNodes == was.ReadyNodes && s.Witness == was.Witness &&
		slices.EqualFunc(s.Conditions, was.Conditions, func(a, b metav1.Condition) bool {
			a.Message = b.Message
			return a == b
		})
	for i := 0; i < len(s.Nodes) && same; i++ {
		a, b := &s.Nodes[i], &was.Nodes[i]
		if a.State == b.State && a.Message == b.Message && a.UID == b.UID && a.same(b) {
			continue
		}
		mayWait := a.Since.Add(detailsLast).Sub(now)
		same = (a.State == Waiting || a.State == Blocked) && a.State == b.State && mayWait > 0 && mayWait <= detailsLast && a.same(b)
		if same && (left == 0 || mayWait < left) {
			left = mayWait
		}
	}
	if !same {
		return 0
	}
	return left
}

// same reports that two records differ at most in their states, messages and uids.
func (s *NodeStatus) same(o *NodeStatus) bool { return s.sameBut(o) && slices.Equal(s.Needs, o.Needs) }

// sameBut reports that two records differ at most in their states, messages, uids and needs.
func (s *NodeStatus) sameBut(o *NodeStatus) bool {
	return s.Name == o.Name && s.object() == o.object() && s.APIVersion == o.APIVersion && s.Undo == o.Undo && s.Done == o.Done &&
		s.Since.Equal(&o.Since) && maps.Equal(s.Orphans, o.Orphans) && s.Thing.same(o.Thing)
}

func (t *ThingStatus) same(o *ThingStatus) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.Token == o.Token && t.Made == o.Made && t.Kept == o.Kept && t.Called.Equal(&o.Called) &&
		t.Answered.Equal(&o.Answered) && maps.Equal(t.Outcome, o.Outcome)
}
