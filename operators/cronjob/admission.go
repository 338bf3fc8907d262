package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v2 "github.com/pintle-go/pintle/operators/cronjob/api/v2"
	"github.com/pintle-go/pintle/webhook"
)

// maxName is how long the name of a CronJob may be: that of a Job may have 63 characters, and
// ends with the time.
const maxName = 52

// check refuses a CronJob that could start no Job. Rules of the definition check all else.
func check(_ context.Context, c *v2.CronJob) error {
	var wrong []error
	if _, err := parse(c.Spec.Schedule); err != nil {
		wrong = append(wrong, webhook.Invalid("spec.schedule", expression(c.Spec.Schedule), err.Error()))
	}
	if len(c.Name) > maxName {
		wrong = append(wrong, webhook.Invalid("metadata.name", c.Name, fmt.Sprintf("must be no more than %d characters", maxName)))
	}
	return errors.Join(wrong...)
}

// complete gives the pods of a Job a restart policy. The schema of a Job has no default for it,
// because that of a pod, Always, is wrong for a Job.
func complete(_ context.Context, c *v2.CronJob) error {
	pod := &c.Spec.JobTemplate.Spec.Template.Spec
	pod.RestartPolicy = cmp.Or(pod.RestartPolicy, corev1.RestartPolicyOnFailure)
	return nil
}
