package plan_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/plan"
)

// A Job that is complete and was deleted, as its ttlSecondsAfterFinished has it, is not run again, also
// by another process. A changed Job runs, and so does one that was deleted before it was complete.
func TestJobRunsOnce(t *testing.T) {
	s := newStubborn(t, true)
	s.finalizers(keeper)
	about := metav1.ObjectMeta{Name: "job", Labels: map[string]string{"app": "stubborn"}}
	setting, suspended := "first", false
	describe := func(p *plan.Plan) {
		plan.Object(p, "job", s.op.jobs, func(plan.Inputs) (*batchv1.Job, error) {
			return &batchv1.Job{ObjectMeta: about, Spec: batchv1.JobSpec{
				Template: pod(about, "any:1", corev1.RestartPolicyNever, setting), Suspend: &suspended,
			}}, nil
		})
	}
	remove := func() {
		t.Helper()
		how := metav1.DeletePropagationBackground
		s.ok(s.op.jobs.Delete(s.soon(), "job", metav1.DeleteOptions{PropagationPolicy: &how}))
		s.ok(s.op.jobs.UntilGone(s.soon(), "job"))
	}
	isThere := func(want bool) {
		t.Helper()
		if _, err := s.op.jobs.Get(s.soon(), "job"); (err == nil) != want || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("with %s: want the Job: %v, got %v", setting, want, err)
		}
	}
	s.ok(s.converge(describe))
	isThere(true)
	remove()
	s.ok(s.converge(describe))
	isThere(false)
	s.op = s.operator(nil) // another process
	s.ok(s.converge(describe))
	isThere(false)
	setting, suspended = "second", true
	run := func() {
		t.Helper()
		shop, err := s.op.shops.Get(s.soon(), "stubborn")
		s.ok(err)
		p := plan.New(s.op.shops, shop, &shop.Status.Status)
		describe(p)
		_, err = p.Run(s.soon())
		s.ok(err)
	}
	run()
	isThere(true)
	remove()
	run()
	isThere(true)
	remove()
	setting, suspended = "first", false // it has not been the last one
	s.ok(s.converge(describe))
	isThere(true)
}
