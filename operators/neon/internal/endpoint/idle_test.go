package endpoint

import (
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/place"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func TestMain(m *testing.M) {
	if os.Getenv(answersOnly) != "" {
		answerAll()
		return
	}
	optest.Parallel(4)
	os.Exit(leak.Run(m))
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// running returns a compute that runs since some time and was last active at another.
func running(start time.Time, last *time.Time) *compute {
	return &compute{seen: noon, status: upstream.ComputeStatus{
		Status: upstream.ComputeRunning, StartTime: start, LastActive: last, Timeline: "t",
	}}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	hour, minute := noon.Add(-time.Hour), noon.Add(-time.Minute)
	for name, c := range map[string]struct {
		after int32
		is    *compute
		idle  bool
	}{
		"no limit":                               {0, running(hour, nil), false},
		"never used since its start an hour ago": {300, running(hour, nil), true},
		"used a minute ago":                      {300, running(hour, &minute), false},
		"used before its start a minute ago":     {300, running(minute, &hour), false},
		"unused since its start a minute ago":    {300, running(minute, nil), false},
		"used for the last time at the limit":    {60, running(hour, &minute), true},
		"used an hour ago, and still running":    {300, running(noon.Add(-2*time.Hour), &hour), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := new(api.NeonEndpoint)
			e.Spec.SuspendAfterSeconds, e.Status.Phase = c.after, active
			new(Operator).report(e, nil, c.is, true, noon)
			if idle := !e.Status.IdleSince.IsZero(); idle != c.idle {
				t.Errorf("idle is %t", idle)
			}
			if e.Status.Phase != active {
				t.Errorf("the phase is %q", e.Status.Phase)
			}
		})
	}
}

// TestJustStarted has a compute that was longer on its way than it may be idle.
func TestJustStarted(t *testing.T) {
	t.Parallel()
	e := new(api.NeonEndpoint)
	e.Spec.SuspendAfterSeconds, e.Status.Phase = 5, starting
	slow := running(noon.Add(-10*time.Second), nil)
	new(Operator).report(e, nil, slow, true, noon)
	if e.Status.Phase != active || !e.Status.IdleSince.IsZero() {
		t.Errorf("it is %s, and idle since %s", e.Status.Phase, e.Status.IdleSince)
	}
	slow.seen = noon.Add(6 * time.Second)
	new(Operator).report(e, nil, slow, true, slow.seen)
	if e.Status.IdleSince.IsZero() {
		t.Error("6 s after its start it is not idle")
	}
}

// TestWoken has a client that was sent to an idle compute.
func TestWoken(t *testing.T) {
	t.Parallel()
	op, e := new(Operator), new(api.NeonEndpoint)
	e.Name, e.Namespace = "orders", "default"
	e.Spec.SuspendAfterSeconds, e.Status.Phase = 5, active
	op.moments.wake(kube.Key{Namespace: "default", Name: "orders"}, noon.Add(-time.Second))
	op.report(e, nil, running(noon.Add(-time.Hour), nil), true, noon)
	if !e.Status.IdleSince.IsZero() {
		t.Error("it is idle although a client has just come")
	}
}

// TestStopped has an answer of a compute that was stopped since.
func TestStopped(t *testing.T) {
	t.Parallel()
	op, e, set, secret := new(Operator), new(api.NeonEndpoint), new(appsv1.StatefulSet), new(corev1.Secret)
	secret.Annotations = map[string]string{place.HashAnnotation: "hash"}
	is := running(noon, nil)
	is.applied = "hash@" + is.startTime()
	differs := op.computes().Differs
	if differs(is, op.wantedCompute(e, secret, set)) {
		t.Error("a compute that has applied its configuration differs")
	}
	op.moments.stop(kube.KeyOf(e), noon.Add(time.Second))
	if !differs(is, op.wantedCompute(e, secret, set)) {
		t.Error("an answer from before the compute was stopped is good")
	}
}

func TestPhases(t *testing.T) {
	t.Parallel()
	set := new(appsv1.StatefulSet)
	set.Status.Replicas = 1
	for want, c := range map[string]struct {
		set  *appsv1.StatefulSet
		is   *compute
		runs bool
	}{
		starting:   {nil, nil, true},
		active:     {set, running(noon, nil), true},
		suspending: {set, running(noon, nil), false},
		suspended:  {new(appsv1.StatefulSet), nil, false},
	} {
		e := new(api.NeonEndpoint)
		new(Operator).report(e, c.set, c.is, c.runs, noon)
		if e.Status.Phase != want {
			t.Errorf("the phase is %q, want %q", e.Status.Phase, want)
		}
	}
}

// TestTimelineIsKeptUntilSuspended sees that an endpoint counts as the writer of a timeline
// until its last pod is gone.
func TestTimelineIsKeptUntilSuspended(t *testing.T) {
	t.Parallel()
	set, e := new(appsv1.StatefulSet), new(api.NeonEndpoint)
	set.Status.Replicas = 1
	new(Operator).report(e, set, running(noon, nil), true, noon)
	new(Operator).report(e, set, nil, false, noon)
	if e.Status.Timeline != "t" {
		t.Errorf("while it is suspending, the timeline is %q", e.Status.Timeline)
	}
	set.Status.Replicas = 0
	new(Operator).report(e, set, nil, false, noon)
	if e.Status.Timeline != "" {
		t.Errorf("suspended, the timeline is %q", e.Status.Timeline)
	}
}

// TestTurnsInUse has a compute that is in use, and whose last use is known in the status by the minute
// only. It is looked at when it can be idle, and not before.
func TestTurnsInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.busy(true)
	stop := w.operate()
	e := endpointOf("shop", "trunk")
	e.Spec.SuspendAfterSeconds = 60
	w.create(e)
	w.ready("shop")
	stop()
	e, err := w.endpoints.Get(w.soon(), "shop")
	w.ok(err)
	e.Status.LastActive = metav1.NewTime(time.Now().Add(-2 * time.Minute))
	err = w.endpoints.Status().Update(w.soon(), e)
	w.ok(err)
	first := make(chan controller.Action, 1)
	w.turned = func(e *api.NeonEndpoint, action controller.Action, err error) {
		select {
		case first <- action:
			if err != nil || e.Status.Phase != active {
				t.Errorf("the first turn ended with %v in phase %s", err, e.Status.Phase)
			}
		default:
		}
	}
	w.operate()
	if next := time.Duration(<-first); next < 30*time.Second {
		t.Errorf("the next turn is after %s", next)
	}
}

// TestNextLook has computes that are in use, and when they are asked again.
func TestNextLook(t *testing.T) {
	t.Parallel()
	hour, minute, unclear := noon.Add(-time.Hour), noon.Add(-time.Minute), running(noon, nil)
	unclear.status.Status = upstream.ComputeInit
	for name, c := range map[string]struct {
		is    *compute
		limit time.Duration
		want  time.Duration
	}{
		"never suspended":   {running(hour, nil), 0, 0},
		"unused":            {running(minute, nil), 5 * time.Minute, 4 * time.Minute},
		"used a minute ago": {running(hour, &minute), 5 * time.Minute, 4 * time.Minute},
		"in use":            {running(hour, &noon), 5 * time.Minute, 5 * time.Minute},
		"idle already":      {running(hour, nil), time.Minute, 5 * time.Second},
		"starting":          {unclear, time.Minute, 0},
	} {
		c.is.limit = c.limit
		if is := c.is.untilIdle(); is != c.want {
			t.Errorf("%s: it is asked again after %s, want %s", name, is, c.want)
		}
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked string
		after int32
		idle  bool
	}{
		"not asked":          {"", 300, true},
		"asked before":       {noon.Add(-time.Second).Format(time.RFC3339), 300, true},
		"asked":              {noon.Add(time.Second).Format(time.RFC3339), 300, false},
		"asked in nonsense":  {"soon", 300, true},
		"idle endpoints run": {"", 0, false},
	} {
		e := new(api.NeonEndpoint)
		e.Spec.SuspendAfterSeconds = c.after
		e.Status.IdleSince = metav1.NewTime(noon)
		e.Annotations = map[string]string{api.Resume: c.asked}
		resume(e)
		if idle := !e.Status.IdleSince.IsZero(); idle != c.idle {
			t.Errorf("%s: idle is %t", name, idle)
		}
	}
}

// A client resumes an endpoint although the clock of the operator's leader is ahead.
func TestResumeWithAClockBehind(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 5e8, time.UTC)
	for _, ahead := range []time.Duration{-time.Hour, 0, 300 * time.Millisecond, time.Minute} {
		e := new(api.NeonEndpoint)
		e.Spec.SuspendAfterSeconds = 5
		e.Status.IdleSince = metav1.NewTime(now.Add(ahead)).Rfc3339Copy()
		at := resumeAt(now, e.Status.IdleSince.Time)
		e.Annotations = map[string]string{api.Resume: at.UTC().Format(time.RFC3339)}
		if resume(e); !e.Status.IdleSince.IsZero() {
			t.Errorf("%s ahead: the endpoint stays suspended", ahead)
		}
	}
}
