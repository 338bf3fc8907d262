package main

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	v1 "github.com/pintle-go/pintle/operators/cronjob/api/v1"
	v2 "github.com/pintle-go/pintle/operators/cronjob/api/v2"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/webhook"
	"github.com/pintle-go/pintle/webhook/webhooktest"
)

// TestRoundTrips converts drawn CronJobs to the other version and back.
func TestRoundTrips(t *testing.T) { webhooktest.RoundTrip(t, definition) }

// TestShort has the short forms of v1: v2 shows their fields, and v1 the text of the user.
func TestShort(t *testing.T) {
	for schedule, want := range map[string]v2.Schedule{
		"@yearly":      {Minute: "0", Hour: "0", DayOfMonth: "1", Month: "1", DayOfWeek: "*"},
		"@hourly":      {Minute: "0", Hour: "*", DayOfMonth: "*", Month: "*", DayOfWeek: "*"},
		"*/5 3 * * 1":  {Minute: "*/5", Hour: "3", DayOfMonth: "*", Month: "*", DayOfWeek: "1"},
		"*/5 3 * * no": {Minute: "*/5", Hour: "3", DayOfMonth: "*", Month: "*", DayOfWeek: "no"},
	} {
		from, to := new(v1.CronJob), new(v2.CronJob)
		from.Spec.Schedule = schedule
		if err := toV2(from, to); err != nil || to.Spec.Schedule != want {
			t.Errorf("%s is %+v, %v", schedule, to.Spec.Schedule, err)
		}
	}
}

// TestOnOwnMachine runs the program as a developer does: the API server calls its webhooks at loopback.
func TestOnOwnMachine(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true, Private: true})
	client := optest.Client(t, cluster.Config())
	operator := binary.Run(t, optest.Kubeconfig(t, cluster.Config(), "default", ""), "-addr=127.0.0.1:0")
	optest.Expect(t, operator, "webhooks registered", "url=https://127.0.0.1:")

	older, newer := kube.For[v1.CronJob](client).In("default"), kube.For[v2.CronJob](client).In("default")
	c := new(v1.CronJob)
	c.Name, c.Spec.Schedule, c.Spec.SuccessfulJobsHistoryLimit = "daily", "@daily", 7
	c.Spec.JobTemplate = batchv1.JobTemplateSpec{}
	c.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "job", Image: "example.com/job"}}
	kubetest.Eventually(t, "the API server calls the webhooks", func() error {
		_, err := older.Apply(t.Context(), c)
		return err
	})
	stored, err := newer.Get(t.Context(), "daily")
	if err != nil {
		t.Fatal(err)
	}
	if s := stored.Spec.Schedule; s.Minute != "0" || s.Hour != "0" || stored.Spec.SuccessfulJobsHistoryLimit != 7 {
		t.Errorf("in v2 it is %+v", stored.Spec)
	}
	kubetest.Eventually(t, "an update is defaulted", func() error {
		_, err := newer.Modify(t.Context(), "daily", func(c *v2.CronJob) error { c.Spec.FailedJobsHistoryLimit = 2; return nil })
		return err
	})
	again, err := older.Get(t.Context(), "daily")
	if err != nil {
		t.Fatal(err)
	}
	if again.Spec.Schedule != "@daily" || again.Spec.FailedJobsHistoryLimit != 2 {
		t.Errorf("in v1 it is %+v", again.Spec)
	}
	if policy := again.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy; policy != corev1.RestartPolicyOnFailure {
		t.Errorf("the restart policy is %q", policy)
	}
	c.Spec.Schedule = "61 * * * *"
	_, err = older.Apply(t.Context(), c)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.schedule") {
		t.Errorf("a senseless schedule: %v", err)
	}

	if err := operator.Stop(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		configurations := kube.For[webhook.Configuration](client, kube.Kind{
			GVK:    kube.GVK{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind},
			Plural: strings.ToLower(kind) + "s", Scope: kube.ClusterScoped,
		})
		if _, err := configurations.Get(t.Context(), "cronjob-operator-dev"); !apierrors.IsNotFound(err) {
			t.Errorf("after the end of the program, %s: %v", kind, err)
		}
	}
}

// TestAdmission asks the API server, with the webhooks alone.
func TestAdmission(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true, Private: true})
	client := optest.Client(t, cluster.Config())
	op, err := describe(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(t.Context(), client, v2.Definition); err != nil {
		t.Fatal(err)
	}
	webhooktest.Register(t, client, op.Webhooks[:2]...)
	cronJobs := kube.For[v2.CronJob](client).In("default")
	c := new(v2.CronJob)
	c.Name, c.Spec.Schedule.Minute = "hello", "5"
	c.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "job", Image: "example.com/job"}}
	made, err := cronJobs.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if policy := made.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy; policy != corev1.RestartPolicyOnFailure {
		t.Errorf("the restart policy is %q", policy)
	}
	for what, change := range map[string]func(*v2.CronJob){
		"spec.schedule": func(c *v2.CronJob) { c.Spec.Schedule.Minute = "60" },
		"metadata.name": func(c *v2.CronJob) { c.Name = strings.Repeat("x", maxName+1) },
	} {
		wrong := *c
		wrong.Name = "wrong"
		change(&wrong)
		if _, err := cronJobs.Create(t.Context(), &wrong); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
