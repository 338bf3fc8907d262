package controller

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// A condition changes its time only with its status, and has the generation that was
// observed.
func TestSetCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gizmo
		var list []metav1.Condition
		set := func(c metav1.Condition, want bool) metav1.Condition {
			t.Helper()
			if changed := SetCondition(&g, &list, c); changed != want {
				t.Errorf("it changed: %t, want %t: %+v", changed, want, list)
			}
			return list[len(list)-1]
		}
		g.Generation = 1
		first := set(metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Message: "0 of 3"}, true)
		if first.Reason != "Ready" || first.ObservedGeneration != 1 ||
			!first.LastTransitionTime.Equal(&metav1.Time{Time: time.Now().Truncate(time.Second)}) {
			t.Errorf("the condition is %+v", first)
		}
		time.Sleep(time.Minute)
		set(metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Message: "0 of 3"}, false)
		second := set(metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Message: "1 of 3"}, true)
		if second.LastTransitionTime != first.LastTransitionTime {
			t.Error("the time is another although the status is not")
		}
		g.Generation = 2
		set(metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Message: "1 of 3"}, true)
		third := set(metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Up"}, true)
		if third.LastTransitionTime.Sub(first.LastTransitionTime.Time) != time.Minute || third.ObservedGeneration != 2 {
			t.Errorf("the condition is %+v", third)
		}
		long := set(metav1.Condition{Type: "Other", Message: strings.Repeat("ä", 20000)}, true)
		if len(list) != 2 || long.Status != metav1.ConditionUnknown || len(long.Message) > maxMessage ||
			!utf8.ValidString(long.Message) {
			t.Errorf("there are %d conditions, the message has %d bytes", len(list), len(long.Message))
		}
	})
}

// conditionSchema is the schema of metav1.Condition, as in the API types.
var conditionSchema = struct{ kind, reason *regexp.Regexp }{
	kind: regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?` +
		`(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`),
	reason: regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`),
}

// valid returns the reasons why a server would refuse a condition.
func valid(c metav1.Condition) (wrong []string) {
	refuse := func(is bool, what string) {
		if is {
			wrong = append(wrong, what)
		}
	}
	refuse(!conditionSchema.reason.MatchString(c.Reason), "the reason's pattern")
	refuse(len(c.Reason) < 1 || utf8.RuneCountInString(c.Reason) > 1024, "the reason's length")
	refuse(utf8.RuneCountInString(c.Message) > 32768, "the message's length")
	refuse(!utf8.ValidString(c.Message), "the message's encoding")
	refuse(!slices.Contains([]metav1.ConditionStatus{"True", "False", "Unknown"}, c.Status), "the status")
	refuse(c.LastTransitionTime.IsZero(), "the time")
	refuse(c.ObservedGeneration < 0, "the generation")
	return wrong
}

// The server accepts the condition, with any field left out and any text in it. To set
// the same condition again is no change, also after it was written and read.
func TestSetConditionIsValid(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := metav1.Condition{
			Type:    rapid.StringMatching(conditionSchema.kind.String()).Draw(rt, "type"),
			Reason:  rapid.OneOf(rapid.Just(""), rapid.String(), rapid.StringN(1000, 1100, -1)).Draw(rt, "reason"),
			Message: rapid.String().Draw(rt, "message"),
			Status:  rapid.SampledFrom([]metav1.ConditionStatus{"", "True", "False"}).Draw(rt, "status"),
		}
		if rapid.Bool().Draw(rt, "broken") {
			more := rapid.SampledFrom([]int{0, 16383, 16384, 40000}).Draw(rt, "more")
			c.Message += "\xff" + strings.Repeat("ä", more)
		}
		if rapid.Bool().Draw(rt, "timed") {
			c.LastTransitionTime = metav1.NewTime(time.Now())
		}
		var g gizmo
		if !SetCondition(&g, &g.Status.Conditions, c) {
			rt.Fatal("nothing changed")
		}
		if wrong := valid(g.Status.Conditions[0]); wrong != nil {
			rt.Fatalf("%q of %+v", wrong, g.Status.Conditions[0])
		}
		good := conditionSchema.reason.MatchString(c.Reason) && len(c.Reason) <= 1024
		if reason := g.Status.Conditions[0].Reason; good && reason != c.Reason {
			rt.Fatalf("the good reason %q became %q", c.Reason, reason)
		}
		written, err := json.Marshal(g)
		if err != nil {
			rt.Fatal(err)
		}
		var read gizmo
		if err := json.Unmarshal(written, &read); err != nil {
			rt.Fatal(err)
		}
		if SetCondition(&read, &read.Status.Conditions, c) {
			rt.Fatalf("it changed from %+v to %+v", g.Status.Conditions[0], read.Status.Conditions[0])
		}
	})
}

// A condition that an earlier release wrote without a time gets one, and keeps it.
func TestConditionWithoutATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}
		list := []metav1.Condition{was}
		for _, reason := range []string{"Ready", "Other"} {
			c := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: reason}
			list[0].LastTransitionTime = metav1.Time{}
			if !SetCondition(new(gizmo), &list, c) || list[0].LastTransitionTime.IsZero() {
				t.Errorf("with reason %s it has the time %v", reason, list[0].LastTransitionTime)
			}
			at := list[0].LastTransitionTime
			time.Sleep(time.Minute)
			if SetCondition(new(gizmo), &list, c) || list[0].LastTransitionTime != at {
				t.Errorf("with reason %s it has another time later", reason)
			}
		}
	})
}

func TestDefaultReasons(t *testing.T) {
	for kind, want := range map[string]string{
		"Ready": "Ready", "example.com/Ready": "Ready", "example.com/a.b-c": "a_b_c", "3rd": "Is3rd",
	} {
		var g gizmo
		SetCondition(&g, &g.Status.Conditions, metav1.Condition{Type: kind})
		if got := g.Status.Conditions[0].Reason; got != want {
			t.Errorf("the reason of %s is %q, want %q", kind, got, want)
		}
	}
}
