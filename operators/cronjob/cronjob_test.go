package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/manifest"
	v2 "github.com/pintle-go/pintle/operators/cronjob/api/v2"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/cronjob"}

func TestMain(m *testing.M) { optest.Main(m, &binary) }

// world is a namespace in which CronJobs run.
type world struct {
	*testing.T
	cluster  *kubetest.Cluster
	cronJobs kube.Resource[v2.CronJob]
	jobs     kube.Resource[batchv1.Job]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
	client, err := kube.Config{Rest: cluster.Config(), FieldManager: "tester"}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := crd.Install(t.Context(), client, v2.Definition); err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace(t)
	return &world{
		T: t, cluster: cluster,
		cronJobs: kube.For[v2.CronJob](client).In(namespace), jobs: kube.For[batchv1.Job](client).In(namespace),
	}
}

// operate runs the operator until the end of the test. Its requests need the rights that its
// manifests give, and no others.
func (w *world) operate() {
	w.Helper()
	var used manifest.Audit
	config := w.cluster.Config()
	config.Wrap(used.Wrap)
	client, err := kube.Config{Rest: config, FieldManager: "cronjob-operator"}.Connect()
	w.ok(err)
	op, err := describe(client)
	w.ok(err)
	op.Options.Lease.Name = ""
	ctx, stop := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx, op.Options, op.Controllers...) }()
	w.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		client.Close()
		if err := used.Compare(op); err != nil && !w.Failed() {
			w.Error(err)
		}
	})
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// create creates a CronJob of each minute whose latest Job started two hours ago. Its Jobs run for
// a time, such as "10m".
func (w *world) create(name, runFor string, change func(*v2.CronJob)) *v2.CronJob {
	w.Helper()
	c := new(v2.CronJob)
	c.Name, c.Spec.Schedule.Minute = name, "*"
	pod := &c.Spec.JobTemplate.Spec.Template
	pod.Annotations = map[string]string{kubetest.RunFor: runFor}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers = []corev1.Container{{Name: "job", Image: "example.com/job"}}
	c.Spec.SuccessfulJobsHistoryLimit, c.Spec.FailedJobsHistoryLimit = 3, 1
	change(c)
	c, err := w.cronJobs.Create(w.Context(), c)
	w.ok(err)
	c.Status.LastScheduleTime = &metav1.Time{Time: time.Now().Add(-2 * time.Hour)}
	w.ok(w.cronJobs.Status().Update(w.Context(), c))
	return c
}

// until waits until a CronJob's condition Ready has a reason, and a further condition holds.
func (w *world) until(name, reason string, holds func(*v2.CronJob) bool) *v2.CronJob {
	w.Helper()
	c, err := w.cronJobs.Until(w.Context(), name, func(c *v2.CronJob) bool {
		ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
		return ready != nil && ready.Reason == reason && holds(c)
	})
	w.ok(err)
	return c
}

func anyway(*v2.CronJob) bool { return true }

// jobsOf returns the names of a CronJob's Jobs.
func (w *world) jobsOf(c *v2.CronJob) (names []string) {
	w.Helper()
	for job, err := range w.jobs.List(w.Context()) {
		w.ok(err)
		if metav1.IsControlledBy(job, c) && job.DeletionTimestamp == nil {
			names = append(names, job.Name)
		}
	}
	return names
}

// TestMissedTimes starts the operator two hours after the latest Job: each CronJob gets one Job.
func TestMissedTimes(t *testing.T) {
	w := newWorld(t)
	kept := w.create("kept", "1ms", func(*v2.CronJob) {})
	w.create("cleared", "1ms", func(c *v2.CronJob) { c.Spec.SuccessfulJobsHistoryLimit = 0 })
	long := w.create("long", "1h", func(c *v2.CronJob) { c.Spec.ConcurrencyPolicy = v2.Forbid })
	suspended := w.create("suspended", "1ms", func(c *v2.CronJob) { c.Spec.Suspend = true })
	w.create("senseless", "1ms", func(c *v2.CronJob) { c.Spec.Schedule.Minute = "60" })
	strict := w.create("strict", "1ms", func(c *v2.CronJob) {
		hour := fmt.Sprint((time.Now().UTC().Hour() + 23) % 24)
		c.Spec.Schedule, c.Spec.StartingDeadlineSeconds = v2.Schedule{Minute: "0", Hour: hour}, new(int64)
	})
	// The answer to the creation of this one's Job was lost. The Job is found by its name.
	hour := time.Now().UTC().Add(-time.Hour)
	lost := w.create("lost", "1h", func(c *v2.CronJob) {
		c.Spec.Schedule = v2.Schedule{Minute: fmt.Sprint(hour.Minute()), Hour: fmt.Sprint(hour.Hour())}
	})
	job := &batchv1.Job{Spec: lost.Spec.JobTemplate.Spec}
	job.Name = fmt.Sprintf("lost-%d", hour.Unix()/60)
	w.ok(kube.SetController(w.cronJobs, lost, w.jobs, job))
	_, err := w.jobs.Create(t.Context(), job)
	w.ok(err)
	w.operate()

	w.until("kept", "Scheduled", func(c *v2.CronJob) bool { return time.Since(c.Status.LastScheduleTime.Time) < time.Hour })
	w.until("cleared", "Scheduled", func(c *v2.CronJob) bool { return time.Since(c.Status.LastScheduleTime.Time) < time.Hour })
	c := w.until("long", "Running", func(c *v2.CronJob) bool { return len(c.Status.Active) == 1 })
	first := c.Status.Active[0]
	w.until("suspended", "Suspended", anyway)
	w.until("senseless", "Failed", anyway)
	w.until("strict", "Scheduled", func(c *v2.CronJob) bool { return time.Since(c.Status.LastScheduleTime.Time) < 119*time.Minute })
	if names := w.jobsOf(suspended); len(names) > 0 {
		t.Errorf("Jobs of a suspended CronJob: %v", names)
	}
	if names := w.jobsOf(strict); len(names) > 0 {
		t.Errorf("Jobs after their deadline: %v", names)
	}
	w.until("lost", "Running", func(c *v2.CronJob) bool { return time.Since(c.Status.LastScheduleTime.Time) < 90*time.Minute })
	if names := w.jobsOf(lost); len(names) != 1 || names[0] != job.Name {
		t.Errorf("the Jobs are %v, want %s", names, job.Name)
	}
	kubetest.Eventually(t, "one Job is kept", func() error {
		if names := w.jobsOf(kept); len(names) == 0 {
			return fmt.Errorf("the Jobs are %v", names)
		}
		return nil
	})

	// The next time comes while the Job runs.
	w.until("long", "Waiting", anyway)
	if names := w.jobsOf(long); len(names) != 1 || names[0] != first {
		t.Errorf("beside a Job that runs, there are %v", names)
	}
	_, err = w.cronJobs.Modify(t.Context(), "long", func(c *v2.CronJob) error {
		c.Spec.ConcurrencyPolicy = v2.Replace
		return nil
	})
	w.ok(err)
	w.until("long", "Running", func(c *v2.CronJob) bool {
		return len(c.Status.Active) == 1 && c.Status.Active[0] != first
	})
	kubetest.Eventually(t, "the replaced Job is gone", func() error {
		if names := w.jobsOf(long); len(names) != 1 || names[0] == first {
			return fmt.Errorf("the Jobs are %v", names)
		}
		return nil
	})
}
