// Command cronjob runs Jobs at the times of a schedule. It is the operator that the tutorial of
// kubebuilder builds under the same name, with the two versions of the tutorial's second part: v1 has
// a cron expression, v2 a field for each of its parts.
//
//	go run ./operators/cronjob                                                  # against the kubeconfig's cluster
//	go run ./operators/cronjob manifests | kubectl apply --server-side -f -     # in it
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
	v2 "github.com/pintle-go/pintle/operators/cronjob/api/v2"
	"github.com/pintle-go/pintle/program"
	"github.com/pintle-go/pintle/webhook"
)

// scheduledAt is the annotation of a Job that has the time for which it was started.
const scheduledAt = "batch.example.com/scheduled-at"

type operator struct {
	cronJobs kube.Resource[v2.CronJob]
	jobs     kube.Resource[batchv1.Job]
	events   *event.Recorder
}

func (op operator) reconcile(ctx context.Context, c *v2.CronJob) (controller.Action, error) {
	times, err := parse(c.Spec.Schedule)
	if err != nil {
		return controller.Done, controller.Terminal(err) // the webhook was away when it was written
	}
	h, err := op.history(ctx, c)
	if err != nil {
		return controller.Done, err
	}
	now, after := time.Now(), h.last
	if after.IsZero() {
		after = c.CreationTimestamp.Time
	}
	d := decide(times, situation{spec: c.Spec, after: after, active: len(h.active), now: now})
	if d.replaces {
		if err := op.delete(ctx, h.active); err != nil {
			return controller.Done, err
		}
		h.active = nil
	}
	if !d.start.IsZero() {
		job, err := op.start(ctx, c, d.start)
		if err != nil {
			return controller.Done, err
		}
		h.active, h.last = append(h.active, job), d.start
	}
	if !d.missed.IsZero() {
		op.events.Warning(c, "DeadlineMissed", "No Job starts for %s: its deadline has passed", d.missed.UTC().Format(time.RFC3339))
		h.last = d.missed
	}
	if err := op.report(ctx, c, h, d); err != nil {
		return controller.Done, err
	}
	// The status has the latest time from here on: no Job is needed to know it.
	err = op.delete(ctx, slices.Concat(
		h.succeeded[:max(0, len(h.succeeded)-int(c.Spec.SuccessfulJobsHistoryLimit))],
		h.failed[:max(0, len(h.failed)-int(c.Spec.FailedJobsHistoryLimit))]))
	if err != nil || d.next.IsZero() {
		return controller.Done, err
	}
	return controller.After(d.next.Sub(now)), nil
}

// history has the Jobs of a CronJob, each list from the oldest to the newest.
type history struct {
	active, succeeded, failed []*batchv1.Job
	// last is the latest time for which a Job was started or left out. It is zero if there is none.
	last time.Time
}

// history reads the Jobs from the cache.
func (op operator) history(ctx context.Context, c *v2.CronJob) (h history, err error) {
	if at := c.Status.LastScheduleTime; at != nil {
		h.last = at.Time
	}
	for job, err := range op.jobs.In(c.Namespace).Cached().OwnedBy(ctx, c.UID) {
		if err != nil {
			return h, err
		}
		if at, err := time.Parse(time.RFC3339, job.Annotations[scheduledAt]); err == nil && at.After(h.last) {
			h.last = at
		}
		switch ended(job) {
		case batchv1.JobComplete:
			h.succeeded = append(h.succeeded, job)
		case batchv1.JobFailed:
			h.failed = append(h.failed, job)
		default:
			if job.DeletionTimestamp == nil {
				h.active = append(h.active, job)
			}
		}
	}
	for _, jobs := range [][]*batchv1.Job{h.active, h.succeeded, h.failed} {
		slices.SortFunc(jobs, func(a, b *batchv1.Job) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
		})
	}
	return h, nil
}

// ended returns the condition with which a Job has ended, or "".
func ended(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// start creates the Job of a time. Its name follows from the time, so that no time has two Jobs.
func (op operator) start(ctx context.Context, c *v2.CronJob, at time.Time) (*batchv1.Job, error) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%d", c.Name, at.Unix()/60), Namespace: c.Namespace,
		Labels: maps.Clone(c.Spec.JobTemplate.Labels), Annotations: map[string]string{scheduledAt: at.UTC().Format(time.RFC3339)},
	}, Spec: *c.Spec.JobTemplate.Spec.DeepCopy()}
	for k, v := range c.Spec.JobTemplate.Annotations {
		if k != scheduledAt {
			job.Annotations[k] = v
		}
	}
	if err := kube.SetController(op.cronJobs, c, op.jobs, job); err != nil {
		return nil, err
	}
	made, err := op.jobs.Create(ctx, job)
	if !apierrors.IsAlreadyExists(err) {
		return made, err
	}
	there, getErr := op.jobs.In(c.Namespace).Get(ctx, job.Name)
	if getErr != nil || !metav1.IsControlledBy(there, c) {
		return nil, errors.Join(err, getErr)
	}
	return there, nil // the answer to an earlier creation was lost
}

// delete deletes Jobs and their pods.
func (op operator) delete(ctx context.Context, jobs []*batchv1.Job) error {
	var failed []error
	background := metav1.DeletePropagationBackground
	for _, job := range jobs {
		err := op.jobs.In(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
			PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions(string(job.UID)),
		})
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// report writes the status if it has changed.
func (op operator) report(ctx context.Context, c *v2.CronJob, h history, d decision) error {
	c.Status.Active = nil
	for _, job := range h.active {
		c.Status.Active = append(c.Status.Active, job.Name)
	}
	if !h.last.IsZero() {
		c.Status.LastScheduleTime = &metav1.Time{Time: h.last}
	}
	c.Status.NextScheduleTime = nil
	if !d.next.IsZero() {
		c.Status.NextScheduleTime = &metav1.Time{Time: d.next}
	}
	condition := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Scheduled", Message: "waits for the next time"}
	switch {
	case c.Spec.Suspend:
		condition.Reason, condition.Message = "Suspended", "no Job starts until suspend is false"
	case !d.waits.IsZero():
		condition.Reason = "Waiting"
		condition.Message = fmt.Sprintf("the Job of %s starts when the earlier Job has ended", d.waits.UTC().Format(time.RFC3339))
	case len(h.active) > 0:
		condition.Reason, condition.Message = "Running", fmt.Sprintf("%d Jobs run", len(h.active))
	}
	controller.SetCondition(c, &c.Status.Conditions, condition)
	return op.cronJobs.Status().Ensure(ctx, c)
}

// failed writes an error into the status.
func (op operator) failed(ctx context.Context, c *v2.CronJob, err error) error {
	controller.SetCondition(c, &c.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Failed", Message: err.Error(),
	})
	return op.cronJobs.Status().Ensure(ctx, c)
}

func main() { program.Main(describe) }

// describe returns the operator.
func describe(client *kube.Client) (program.Operator, error) {
	op := operator{
		cronJobs: kube.For[v2.CronJob](client), jobs: kube.For[batchv1.Job](client),
		events: &event.Recorder{Controller: "batch.example.com/cronjob-operator"},
	}
	cronJobs := controller.Controller[v2.CronJob]{
		For: op.cronJobs, Owns: []kube.AnyHandle{op.jobs}, Reconcile: op.reconcile, Failed: op.failed,
	}
	validate := webhook.Validate(op.cronJobs, webhook.Checks[v2.CronJob]{
		Create: check,
		Update: func(ctx context.Context, _, after *v2.CronJob) error { return check(ctx, after) },
	})
	return program.Operator{
		Name:        "cronjob-operator",
		Image:       "ghcr.io/pintle-go/cronjob:v0.1.0",
		Controllers: []controller.Any{cronJobs},
		Definitions: []*crd.Definition{definition},
		Webhooks:    []webhook.Hook{validate, webhook.Default(op.cronJobs, complete), webhook.Convert(definition)},
		Options:     controller.Options{Lease: lease.Lease{Name: "cronjob-operator"}, Events: op.events},
		Needs: []manifest.Rules{
			manifest.Creates(op.jobs), manifest.Gets(op.jobs), manifest.Deletes(op.jobs),
		},
	}, nil
}
