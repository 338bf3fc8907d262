package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What is paid for every event and every read has a bound, so that a change
// that makes it dearer is seen.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too")
	}
	pod := seedPod()
	msg, body := marshal(t, pod), marshalJSON(t, pod)
	for _, tc := range []struct {
		name  string
		codec *codec
		proto bool
		most  float64
		work  func(c *codec, rec *recorder, raw []byte, proto bool)
	}{
		{"intake of a Pod", mustCodec[corev1.Pod](t, true), true, 8, intake},
		{"intake of a view", mustCodec[podView](t, true), true, 8, intake},
		{"intake of a view by JSON", mustCodec[podView](t, false), false, 45, intake},
		{"read of a view", mustCodec[podView](t, true), true, 60, readView},
		{"read of a view by JSON", mustCodec[podView](t, false), false, 60, readView},
	} {
		rec := recorder{codec: tc.codec}
		raw := body
		if tc.proto {
			raw = msg
		}
		n := testing.AllocsPerRun(200, func() { tc.work(tc.codec, &rec, raw, tc.proto) })
		t.Logf("%s: %.0f allocations", tc.name, n)
		if n > tc.most {
			t.Errorf("%s: %.0f allocations, want at most %.0f", tc.name, n, tc.most)
		}
	}
}

func intake(_ *codec, rec *recorder, raw []byte, proto bool) {
	r, err := rec.record(proto, raw)
	if err != nil {
		panic(err)
	}
	newEntry(r)
}

func readView(c *codec, rec *recorder, raw []byte, proto bool) {
	r, err := rec.record(proto, raw)
	if err != nil {
		panic(err)
	}
	if err := newEntry(r).decode(c, new(podView)); err != nil {
		panic(err)
	}
}

// The bytes of a record are the recorder's: what is kept must be copied.
func TestEntriesDoNotShareTheRecordersBuffer(t *testing.T) {
	for _, proto := range []bool{true, false} {
		rec := recorder{codec: mustCodec[corev1.Pod](t, true)}
		encode := func(name string) []byte {
			pod := seedPod()
			pod.Name, pod.Spec.NodeName = name, name
			if proto {
				return marshal(t, pod)
			}
			return marshalJSON(t, pod)
		}
		r, err := rec.record(proto, encode("first"))
		if err != nil {
			t.Fatal(err)
		}
		e := newEntry(r)
		if _, err := rec.record(proto, encode("other")); err != nil {
			t.Fatal(err)
		}
		got := new(corev1.Pod)
		if err := e.decode(rec.codec, got); err != nil || got.Name != "first" || got.Spec.NodeName != "first" {
			t.Errorf("%v, %v", got, err)
		}
		got.Labels["a"] = "changed"
		again := new(corev1.Pod)
		if err := e.decode(rec.codec, again); err != nil || again.Labels["a"] != "b" {
			t.Errorf("what was read is shared: %v, %v", again.Labels, err)
		}
	}
}
