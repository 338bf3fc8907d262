package kube

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestEnsuredModel has the answer to an Ensure come at any time before, between
// and after what a watch tells of the object, of which a list may hide some. What
// is then held to be unchanged is so; and it is held so unless something was hidden.
func TestEnsuredModel(t *testing.T) {
	c := newAPIServer().client(t)
	h := For[corev1.ConfigMap](c).In("default").handle
	wanted := sha256.Sum256([]byte("the note is ours"))
	rapid.Check(t, func(t *rapid.T) {
		table := &table{handle: h, entries: make(map[Key]*entry), own: newOwnWrites(h)}
		sink := &tableSink{table: table, namespace: "default"}
		at := key("a")
		state := func(version int, note, theirs string) *corev1.ConfigMap {
			o := &corev1.ConfigMap{Data: map[string]string{"note": note, "theirs": theirs}}
			o.Name, o.Namespace, o.UID, o.ResourceVersion = at.Name, at.Namespace, "uid", strconv.Itoa(version)
			return o
		}
		record := func(o *corev1.ConfigMap) record {
			raw, err := encodeJSON(o)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := (&recorder{codec: h.codec}).record(false, raw)
			if err != nil {
				t.Fatal(err)
			}
			return rec
		}
		states := []*corev1.ConfigMap{state(10, "ours", "none")}
		for i := range rapid.IntRange(0, 4).Draw(t, "changes") {
			note := rapid.SampledFrom([]string{"ours", "ours", "others'"}).Draw(t, "note")
			states = append(states, state(11+i, note, fmt.Sprint("theirs ", i)))
		}
		answer := states[0].DeepCopy()
		answer.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "me", Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{"f:note":{}}}`)},
		}}
		unchanged := func() bool {
			same, err := table.unchanged(t.Context(), at, wanted, new(corev1.ConfigMap))
			if err != nil {
				t.Fatal(err)
			}
			return same
		}

		turn, hidden, kept := rapid.IntRange(0, len(states)).Draw(t, "the answer comes before"), false, true
		for i := 0; i <= len(states); i++ {
			if i == turn {
				table.ensure(at, wanted, "me", answer)
			}
			if i == len(states) {
				break
			}
			kept = kept && states[i].Data["note"] == "ours"
			last := i == len(states)-1
			switch {
			case !last && rapid.IntRange(0, 5).Draw(t, "hidden") == 0:
				hidden = true
				continue
			case rapid.Bool().Draw(t, "listed"):
				sink.begin()
				_ = sink.item(record(states[i]))
				_ = sink.synced(states[i].ResourceVersion)
			default:
				_ = sink.event(eventModified, record(states[i]))
			}
			if i < turn || !rapid.Bool().Draw(t, "asked") {
				continue
			}
			if same := unchanged(); same && states[i].Data["note"] != "ours" {
				t.Fatalf("state %d is held to be unchanged: %v", i, states[i].Data)
			}
		}
		end, same := states[len(states)-1].Data["note"], unchanged()
		switch {
		case same && end != "ours":
			t.Fatalf("the end is held to be unchanged, and the note is %s", end)
		case !same && kept && !hidden:
			t.Fatal("nothing has changed, and that is not seen")
		}
	})
}
