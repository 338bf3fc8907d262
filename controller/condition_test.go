package controller

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A condition changes its time only with its status, and says of which
// generation it is.
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
		if first.Reason != "Ready" || first.ObservedGeneration != 1 || !first.LastTransitionTime.Equal(&metav1.Time{Time: time.Now().Truncate(time.Second)}) {
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
		if len(list) != 2 || long.Status != metav1.ConditionUnknown || len(long.Message) > maxMessage || !utf8.ValidString(long.Message) {
			t.Errorf("there are %d conditions, the message has %d bytes", len(list), len(long.Message))
		}
	})
}
