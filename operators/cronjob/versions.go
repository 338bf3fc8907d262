package main

import (
	"strings"

	"github.com/pintle-go/pintle/crd"
	v1 "github.com/pintle-go/pintle/operators/cronjob/api/v1"
	v2 "github.com/pintle-go/pintle/operators/cronjob/api/v2"
)

// definition has both versions. Objects are stored in v2.
var definition = crd.Join(v2.Definition, crd.Converts(v1.Definition, toV2, toV1))

// short has the short forms of cron expressions.
var short = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// toV2 converts a CronJob to the storage version.
func toV2(from *v1.CronJob, to *v2.CronJob) error {
	expression := from.Spec.Schedule
	if long, ok := short[expression]; ok {
		expression = long
	}
	fields := append(strings.Fields(expression), "", "", "", "", "")
	to.Spec = v2.Spec{
		Schedule: v2.Schedule{
			Minute: fields[0], Hour: fields[1], DayOfMonth: fields[2], Month: fields[3], DayOfWeek: fields[4],
		},
		StartingDeadlineSeconds:    from.Spec.StartingDeadlineSeconds,
		ConcurrencyPolicy:          v2.ConcurrencyPolicy(from.Spec.ConcurrencyPolicy),
		Suspend:                    from.Spec.Suspend,
		JobTemplate:                from.Spec.JobTemplate,
		SuccessfulJobsHistoryLimit: from.Spec.SuccessfulJobsHistoryLimit,
		FailedJobsHistoryLimit:     from.Spec.FailedJobsHistoryLimit,
	}
	to.Status = v2.Status(from.Status)
	return nil
}

// toV1 converts a CronJob from the storage version.
func toV1(from *v2.CronJob, to *v1.CronJob) error {
	to.Spec = v1.Spec{
		StartingDeadlineSeconds:    from.Spec.StartingDeadlineSeconds,
		ConcurrencyPolicy:          string(from.Spec.ConcurrencyPolicy),
		Suspend:                    from.Spec.Suspend,
		JobTemplate:                from.Spec.JobTemplate,
		SuccessfulJobsHistoryLimit: from.Spec.SuccessfulJobsHistoryLimit,
		FailedJobsHistoryLimit:     from.Spec.FailedJobsHistoryLimit,
	}
	if from.Spec.Schedule != (v2.Schedule{}) { // the server converts parts of objects, too
		to.Spec.Schedule = expression(from.Spec.Schedule)
	}
	to.Status = v1.Status(from.Status)
	return nil
}
