package wire

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The cost of every event and every read has a bound, so that the test notices a change
// that makes it more expensive.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too")
	}
	t.Run("room for lists", testRoomSaves)
	pod := seedPod()
	msg, body := marshal(t, pod), marshalJSON(t, pod)
	for _, tc := range []struct {
		name  string
		codec *Codec
		proto bool
		most  float64
		work  func(c *Codec, rec *Recorder, raw []byte, proto bool)
	}{
		{"intake of a Pod", mustCodec[corev1.Pod](t, true), true, 8, intake},
		{"intake of a view", mustCodec[podView](t, true), true, 8, intake},
		{"intake of a view by JSON", mustCodec[podView](t, false), false, 45, intake},
		{"read of a view", mustCodec[podView](t, true), true, 60, readView},
		{"read of a view by JSON", mustCodec[podView](t, false), false, 60, readView},
	} {
		rec := NewRecorder(tc.codec)
		raw := body
		if tc.proto {
			raw = msg
		}
		n := testing.AllocsPerRun(200, func() { tc.work(tc.codec, rec, raw, tc.proto) })
		t.Logf("%s: %.0f allocations", tc.name, n)
		if n > tc.most {
			t.Errorf("%s: %.0f allocations, want at most %.0f", tc.name, n, tc.most)
		}
	}
}

func intake(_ *Codec, rec *Recorder, raw []byte, proto bool) {
	r, err := rec.Record(Raw{raw, proto})
	if err != nil {
		panic(err)
	}
	NewEntry(r)
}

func readView(c *Codec, rec *Recorder, raw []byte, proto bool) {
	r, err := rec.Record(Raw{raw, proto})
	if err != nil {
		panic(err)
	}
	if err := NewEntry(r).Decode(c, new(podView)); err != nil {
		panic(err)
	}
}

// The recorder owns the bytes of a record: an entry must have a copy.
func TestEntriesDoNotShareTheRecordersBuffer(t *testing.T) {
	for _, proto := range []bool{true, false} {
		rec := NewRecorder(mustCodec[corev1.Pod](t, true))
		encode := func(name string) []byte {
			pod := seedPod()
			pod.Name, pod.Spec.NodeName = name, name
			if proto {
				return marshal(t, pod)
			}
			return marshalJSON(t, pod)
		}
		r, err := rec.Record(Raw{encode("first"), proto})
		if err != nil {
			t.Fatal(err)
		}
		e := NewEntry(r)
		if _, err := rec.Record(Raw{encode("other"), proto}); err != nil {
			t.Fatal(err)
		}
		got := new(corev1.Pod)
		if err := e.Decode(rec.codec, got); err != nil || got.Name != "first" || got.Spec.NodeName != "first" {
			t.Errorf("%v, %v", got, err)
		}
		got.Labels["a"] = "changed"
		again := new(corev1.Pod)
		if err := e.Decode(rec.codec, again); err != nil || again.Labels["a"] != "b" {
			t.Errorf("two reads share their result: %v, %v", again.Labels, err)
		}
	}
}
