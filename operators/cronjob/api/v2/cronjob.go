// Package v2 has the storage version of a CronJob, whose schedule has a field for each part.
package v2

import (
	"embed"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// A CronJob runs a Job again and again.
type CronJob struct {
	kube.Object
	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// Spec has the wishes of a user.
type Spec struct {
	// The times at which Jobs start, in UTC.
	Schedule Schedule `json:"schedule"`
	// Seconds after its time within which a Job may still start. A Job that could not start in
	// them is left out. Without it a Job may start at any time before the next one.
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty" crd:"min=0"`
	// The treatment of a time at which the Job of an earlier time still runs. Allow starts the new Job
	// beside it, Forbid waits until the earlier Job has ended, Replace deletes the earlier Job.
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty" crd:"enum=Allow|Forbid|Replace,default=Allow"`
	// Whether no further Job starts. Jobs that run are left alone.
	Suspend bool `json:"suspend" crd:"default=false,column"`
	// The Job that is created at each time.
	JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`
	// The number of completed Jobs that stay.
	SuccessfulJobsHistoryLimit int32 `json:"successfulJobsHistoryLimit" crd:"min=0,default=3"`
	// The number of failed Jobs that stay.
	FailedJobsHistoryLimit int32 `json:"failedJobsHistoryLimit" crd:"min=0,default=1"`
}

// Schedule has the five fields of a cron expression. An empty field means each value.
type Schedule struct {
	Minute     string `json:"minute,omitempty" crd:"pattern=^\\S+$,column"`
	Hour       string `json:"hour,omitempty" crd:"pattern=^\\S+$,column"`
	DayOfMonth string `json:"dayOfMonth,omitempty" crd:"pattern=^\\S+$"`
	Month      string `json:"month,omitempty" crd:"pattern=^\\S+$"`
	DayOfWeek  string `json:"dayOfWeek,omitempty" crd:"pattern=^\\S+$"`

	_ struct{} `crd:"rule='has(self.minute) || has(self.hour) || has(self.dayOfMonth) || has(self.month) || has(self.dayOfWeek)',message='one field is required'"`
}

// ConcurrencyPolicy is the treatment of a time at which the Job of an earlier time runs.
type ConcurrencyPolicy string

// The policies of concurrency.
const (
	Allow   ConcurrencyPolicy = "Allow"
	Forbid  ConcurrencyPolicy = "Forbid"
	Replace ConcurrencyPolicy = "Replace"
)

// Status has the observations of the operator.
type Status struct {
	// The names of the Jobs that run.
	Active []string `json:"active,omitempty"`
	// The latest time for which a Job was started, or left out because its deadline had passed.
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty" crd:"column=Last"`
	// The next time at which a Job starts.
	NextScheduleTime *metav1.Time       `json:"nextScheduleTime,omitempty"`
	Conditions       []metav1.Condition `json:"conditions,omitempty"`
}

// GVK returns the kind.
func (CronJob) GVK() kube.GVK {
	return kube.GVK{Group: "batch.example.com", Version: "v2", Kind: "CronJob"}
}

//go:embed cronjob.go
var source embed.FS

// Definition is the definition of this version.
var Definition = crd.Of[CronJob](crd.Options{Source: source})
