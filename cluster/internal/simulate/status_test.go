package simulate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newPod(policy corev1.RestartPolicy, annotations map[string]string) *pod {
	o := &pod{}
	o.Name, o.Annotations, o.Generation = "p", annotations, 1
	o.Spec.RestartPolicy = policy
	o.Spec.Containers = []container{{Name: "a", Image: "x"}, {Name: "b", Image: "y"}}
	o.Spec.InitContainers = []container{{Name: "init", Image: "z"}}
	return o
}

// live applies the plan to a pod step by step, at the times that the plan asks for, and
// returns the phases and reasons on the way.
func live(t *testing.T, o *pod, steps int) (states []string) {
	t.Helper()
	now := noon
	for range steps {
		p, err := planOf(o)
		if err != nil {
			t.Fatal(err)
		}
		status, again := p.status(now)
		if status != nil {
			o.Status = *status
			c := status.ContainerStatuses[1]
			state := string(status.Phase)
			switch {
			case c.State.Waiting != nil:
				state += "/" + c.State.Waiting.Reason
			case c.State.Terminated != nil:
				state += "/" + c.State.Terminated.Reason
			case c.Ready:
				state += "/ready"
			}
			states = append(states, now.Sub(noon).String()+" "+state)
		}
		if again == 0 {
			break
		}
		now = now.Add(again)
	}
	return states
}

func TestPodsLife(t *testing.T) {
	always, onFailure, never := corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	tests := map[string]struct {
		policy      corev1.RestartPolicy
		annotations map[string]string
		want        []string
	}{
		"runs at once, for ever": {always, nil, []string{"0s Running/ready"}},
		"starts after a delay": {always, map[string]string{StartDelay: "5s"},
			[]string{"0s Pending/ContainerCreating", "5s Running/ready"}},
		"a job's pod completes": {never, nil, []string{"0s Succeeded/Completed"}},
		"a job's pod takes its time": {onFailure, map[string]string{StartDelay: "1s", RunFor: "1m"},
			[]string{"0s Pending/ContainerCreating", "1s Running/ready", "1m1s Succeeded/Completed"}},
		"fails for good": {never, map[string]string{ExitCode: "2"}, []string{"0s Failed/Error"}},
		"crashes, and comes back after the kubelet's back-off": {
			always, map[string]string{RunFor: "1s", ExitCode: "1"},
			[]string{
				"0s Running/ready", "1s Running/CrashLoopBackOff", "11s Running/ready", "12s Running/CrashLoopBackOff",
				"32s Running/ready",
			},
		},
		"crashes at the start": {onFailure, map[string]string{ExitCode: "1"},
			[]string{"0s Running/CrashLoopBackOff", "10s Running/CrashLoopBackOff", "30s Running/CrashLoopBackOff"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := live(t, newPod(tt.policy, tt.annotations), len(tt.want))
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestRestartsAreCounted(t *testing.T) {
	o := newPod(corev1.RestartPolicyAlways, map[string]string{ExitCode: "1"})
	live(t, o, 4)
	if got := o.Status.ContainerStatuses[0].RestartCount; got != 3 {
		t.Errorf("after four starts the restart count is %d, want 3", got)
	}
	if backOff(3) != 80*time.Second || backOff(30) != 5*time.Minute {
		t.Errorf("back-off is %s and %s, want 1m20s and 5m", backOff(3), backOff(30))
	}
}

func TestReadinessGatesHoldBackReadiness(t *testing.T) {
	o := newPod(corev1.RestartPolicyAlways, nil)
	o.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	live(t, o, 1)
	p, _ := planOf(o)
	if got := p.condition(corev1.PodReady); got != corev1.ConditionFalse {
		t.Fatalf("Ready is %s while the gate is closed", got)
	}
	if status, _ := p.status(noon.Add(time.Second)); status != nil {
		t.Fatal("a status is written that says nothing new")
	}
	o.Status.Conditions = append(
		o.Status.Conditions, corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue},
	)
	p, _ = planOf(o)
	status, _ := p.status(noon.Add(time.Minute))
	if status == nil {
		t.Fatal("nothing happens when the gate opens")
	}
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady &&
			(c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Time.Equal(noon.Add(time.Minute))) {
			t.Errorf("Ready is %s since %s", c.Status, c.LastTransitionTime)
		}
		if c.Type == corev1.ContainersReady && !c.LastTransitionTime.Time.Equal(noon) {
			t.Errorf("ContainersReady, which did not change, has transition time %s", c.LastTransitionTime)
		}
	}
}

func TestWrongAnnotationsAreErrors(t *testing.T) {
	for _, a := range []map[string]string{{StartDelay: "soon"}, {RunFor: "-1s"}, {ExitCode: "many"}} {
		if _, err := planOf(newPod(corev1.RestartPolicyAlways, a)); err == nil {
			t.Errorf("%v: no error", a)
		}
	}
}

func TestAddressesAreUnique(t *testing.T) {
	var a addresses
	a.take("10.244.0.2", "old")
	a.take("127.0.0.1", "host network")
	seen := make(map[string]bool)
	for i := range 12_000 {
		ip, err := a.give(types.UID(metav1.NewTime(noon.Add(time.Duration(i))).String()))
		if err != nil {
			t.Fatal(err)
		}
		if seen[ip] || ip == "10.244.0.2" {
			t.Fatalf("%s is given twice", ip)
		}
		seen[ip] = true
	}
	a.free("10.244.0.2", "another")
	if a.taken[podRange.Addr().Next().Next()] != "old" {
		t.Error("an address is freed by another pod")
	}
}
