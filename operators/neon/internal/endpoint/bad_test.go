package endpoint

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/ready"
)

// TestBadInput has an endpoint that cannot run. Its condition says the reason, and a remedy.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.branch("cold", "2", func(b *api.NeonBranch) { b.Spec.Archived = true })
	w.operate()
	why := "Postgres exited unexpectedly with code 1"
	failed := func() { w.outside.begin = upstream.ComputeFailed }
	for name, c := range map[string]struct {
		change func(*api.NeonEndpoint)
		before func()
		says   []string
	}{
		"archived": {
			change: func(e *api.NeonEndpoint) { e.Spec.Branch = "cold" },
			says:   []string{"NeonBranch cold is archived: set spec.archived to false"},
		},
		"nowhere": {
			change: func(e *api.NeonEndpoint) { e.Spec.Branch = "none" },
			says:   []string{"branch", "it does not exist"},
		},
		"libraries": {
			change: func(e *api.NeonEndpoint) { e.Spec.Settings = map[string]string{"shared_preload_libraries": "other"} },
			says:   []string{"setting shared_preload_libraries"},
		},
		"version": {
			before: failed,
			says:   []string{"it is failed: " + why, "Its image, compute:test, must be one of PostgreSQL 17"},
		},
	} {
		w.outside.set(func() {
			w.outside.begin, w.outside.failure = upstream.ComputeRunning, nil
			if c.before != nil {
				c.before()
				w.outside.failure = &why
			}
		})
		e := endpointOf(name, "trunk")
		if c.change != nil {
			c.change(e)
		}
		w.create(e)
		w.until(name, "says "+strings.Join(c.says, " … "), func(e *api.NeonEndpoint) bool {
			is := condition(e)
			for _, text := range c.says {
				if !strings.Contains(is.Message, text) {
					return false
				}
			}
			return is.Status == "False"
		})
		w.ok(w.endpoints.Delete(w.soon(), name))
		w.ok(w.endpoints.UntilGone(w.soon(), name))
	}
	for s, err := range w.sets.List(w.soon()) {
		w.ok(err)
		t.Errorf("StatefulSet %s is left", s.Name)
	}
	for l, err := range w.leases.Labeled(writerSelector).List(w.soon()) {
		w.ok(err)
		t.Errorf("Lease %s is left", l.Name)
	}
}

// TestPodsThatDoNotStart has computes that do not answer because of their pods.
func TestPodsThatDoNotStart(t *testing.T) {
	t.Parallel()
	waiting := func(reason, message string) *corev1.Pod {
		p := podOf(endpointOf("shop", "trunk"))
		p.Name = "shop-compute-0"
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "compute", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}
		return p
	}
	unplaced := waiting("", "")
	unplaced.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "Insufficient memory",
	}}
	const fix = "correct spec.computeImages or spec.imagePullSecrets of the NeonCluster"
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		says []string
	}{
		"no pod":               {nil, []string{"it has no pod"}},
		"no such image":        {waiting("ErrImagePull", "not found"), []string{"pod shop-compute-0", "ErrImagePull: not found", fix}},
		"no such image, later": {waiting("ImagePullBackOff", ""), []string{"ImagePullBackOff", fix}},
		"no name of an image":  {waiting("InvalidImageName", ""), []string{"InvalidImageName", fix}},
		"no room":              {unplaced, []string{"Unschedulable: Insufficient memory"}},
		"a crash":              {waiting("CrashLoopBackOff", ""), []string{"CrashLoopBackOff"}},
	} {
		is := computeReady(&compute{silence: errors.New("connection refused"), pod: c.pod}, false)
		if is.Phase != ready.Waiting {
			t.Errorf("%s: it is %v", name, is.Phase)
		}
		for _, text := range c.says {
			if !strings.Contains(is.Message, text) {
				t.Errorf("%s: it says %q, without %q", name, is.Message, text)
			}
		}
		if name == "a crash" && strings.Contains(is.Message, fix) {
			t.Errorf("%s: it says %q", name, is.Message)
		}
	}
}
