package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	v1 "github.com/pintle-go/pintle/operators/cronjob/api/v1"
	v2 "github.com/pintle-go/pintle/operators/cronjob/api/v2"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

// TestRealNode runs the operator as it is shipped, from the manifests that it prints: two pods
// whose webhooks the API server calls through the Service. While they are replaced, no write is
// refused. A pod that starts beside objects of the older version gets ready, although the API server
// can list them only through a pod that is ready.
func TestRealNode(t *testing.T) {
	node := optest.StartRealNode(t)
	dir := t.TempDir()
	// In another process, because the race detector makes compressing ten times as slow.
	optest.Go(t, "run", "github.com/pintle-go/pintle/operators/cronjob/image", "-dir", dir)
	node.Load(t, filepath.Join(dir, "cronjob.tar"))
	// An earlier release had only v1, and one object is stored in it.
	if err := crd.Install(t.Context(), node.Client, v1.Definition); err != nil {
		t.Fatal(err)
	}
	older, newer := kube.For[v1.CronJob](node.Client).In("default"), kube.For[v2.CronJob](node.Client).In("default")
	early := new(v1.CronJob)
	early.Name, early.Spec.Schedule, early.Spec.Suspend = "early", "@weekly", true
	early.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "job", Image: "example.com/job"}}
	if _, err := older.Create(t.Context(), early); err != nil {
		t.Fatal(err)
	}
	optest.Apply(t, node.Client, "default", binary.Manifests(t)...)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	deployments := kube.For[appsv1.Deployment](node.Client).In("cronjob-operator")
	rolledOut := func() {
		t.Helper()
		_, err := deployments.Until(ctx, "cronjob-operator", func(d *appsv1.Deployment) bool {
			return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 2 &&
				d.Status.AvailableReplicas == 2 && d.Status.Replicas == 2
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rolledOut()
	kubetest.Eventually(t, "the early object is converted", func() error {
		c, err := newer.Get(ctx, "early")
		if err == nil && c.Spec.Schedule.DayOfWeek != "0" {
			err = fmt.Errorf("its schedule is %+v", c.Spec.Schedule)
		}
		return err
	})

	hourly := new(v1.CronJob)
	hourly.Name, hourly.Spec.Schedule, hourly.Spec.Suspend = "hourly", "@hourly", true
	hourly.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "job", Image: "example.com/job"}}
	kubetest.Eventually(t, "the API server trusts the webhooks", func() error {
		_, err := older.Apply(ctx, hourly)
		return err
	})
	stored, err := newer.Get(ctx, "hourly")
	if err != nil || stored.Spec.Schedule.Minute != "0" ||
		stored.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		t.Fatalf("in v2 it is %+v, %v", stored, err)
	}
	senseless := new(v1.CronJob)
	senseless.Name, senseless.Spec = "senseless", hourly.Spec
	senseless.Spec.Schedule = "61 * * * *"
	if _, err := older.Apply(ctx, senseless); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.schedule") {
		t.Errorf("a senseless schedule: %v", err)
	}

	// All pods are replaced while somebody writes.
	writing, stop := context.WithCancel(ctx)
	written := make(chan error, 1)
	go func() {
		n := 0
		for ; writing.Err() == nil; n++ {
			c := *hourly
			c.Spec.FailedJobsHistoryLimit = int32(n % 5)
			if _, err := older.Apply(writing, &c); err != nil && writing.Err() == nil {
				written <- fmt.Errorf("write %d: %w", n, err)
				return
			}
		}
		t.Logf("%d writes", n)
		written <- nil
	}()
	_, err = deployments.Modify(ctx, "cronjob-operator", func(d *appsv1.Deployment) error {
		d.Spec.Template.Annotations = map[string]string{"example.com/restarted": "yes"}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rolledOut()
	stop()
	if err := <-written; err != nil {
		t.Error(err)
	}
}
