package intent

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Times are encoded as they encode themselves.
func TestTimes(t *testing.T) {
	type times struct {
		metav1.TypeMeta `json:",inline"`
		Status          struct {
			A metav1.Time      `json:"a"`
			B []metav1.Time    `json:"b"`
			C metav1.Time      `json:"c,omitzero"`
			D metav1.MicroTime `json:"d"`
		} `json:"status"`
	}
	encoder, err := For(reflect.TypeFor[times]())
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{
		time.Unix(0, 0), time.Date(2026, 2, 3, 4, 5, 6, 789, time.FixedZone("x", 3600)), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		var o times
		o.Status.A, o.Status.B = metav1.NewTime(at), []metav1.Time{metav1.NewTime(at), {}}
		o.Status.C, o.Status.D = metav1.NewTime(at), metav1.NewMicroTime(at)
		want, err := json.Marshal(o.Status)
		if err != nil {
			t.Fatal(err)
		}
		got, err := encoder.Object(nil, &o, Options{APIVersion: "v1", Kind: "Times", Part: Status})
		if err != nil {
			t.Fatal(err)
		}
		if text := `{"apiVersion":"v1","kind":"Times","status":` + string(want) + "}"; string(got) != text {
			t.Errorf("got\n%s, want\n%s", got, text)
		}
	}
}
