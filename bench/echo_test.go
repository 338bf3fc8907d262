package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/bench/peerecho/api"
)

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i) // unsorted
	}
	for share, want := range map[float64]float64{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := quantile(hundred, share); got != want {
			t.Errorf("quantile %v of 1 to 100: %v, want %v", share, got, want)
		}
	}
	if hundred[0] != 100 {
		t.Error("the values were put into another order")
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing: %v", got)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		k, n int
		want []int
	}{
		{3, 9, []int{0, 3, 6}},
		{200, 4, []int{0, 1, 2, 3}},
		{2, 0, []int{}},
	} {
		if got := spread(c.k, c.n); !slices.Equal(got, c.want) {
			t.Errorf("spread(%d, %d) = %v, want %v", c.k, c.n, got, c.want)
		}
	}
}

func TestIsReadyEcho(t *testing.T) {
	ready := func(change func(*api.Echo)) bool {
		e := &api.Echo{Spec: api.EchoSpec{Replicas: 2}, Status: api.EchoStatus{ReadyReplicas: 2}}
		e.Generation = 3
		e.Status.Conditions = []metav1.Condition{
			{Type: api.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 3},
		}
		change(e)
		return isReadyEcho(e)
	}
	if !ready(func(*api.Echo) {}) {
		t.Error("one whose servers all answer is not ready")
	}
	for what, change := range map[string]func(*api.Echo){
		"no condition":              func(e *api.Echo) { e.Status.Conditions = nil },
		"a false condition":         func(e *api.Echo) { e.Status.Conditions[0].Status = metav1.ConditionFalse },
		"a condition of before":     func(e *api.Echo) { e.Generation = 4 },
		"fewer servers than wanted": func(e *api.Echo) { e.Status.ReadyReplicas = 1 },
	} {
		if ready(change) {
			t.Errorf("one with %s is ready", what)
		}
	}
}

// The table compares our operator with the peer's figures and with fixed ones. It names
// the figures that were not measured.
func TestEchoRows(t *testing.T) {
	sizes := map[string]built{
		peerEcho: {binary: 33 * megabyte, image: 11 * megabyte}, oursEcho: {binary: 20 * megabyte, image: 6 * megabyte},
	}
	milliseconds := func(values ...float64) []float64 {
		for i := range values {
			values[i] *= float64(time.Millisecond)
		}
		return values
	}
	results := map[string]echoResults{
		peerEcho: {
			{start: 4, idle: 60 * megabyte},
			{start: 4, idle: 60 * megabyte, cpu: 10, peak: 100, requests: 70, answers: milliseconds(1, 2, 3)},
		},
		oursEcho: {
			{start: 2, idle: 45 * megabyte},
			{start: 2, idle: 45 * megabyte, cpu: 5, peak: 51, requests: 70, answers: milliseconds(-1, 4, 30)},
		},
	}
	var out strings.Builder
	if err := table(&out, echoRows(options{echoes: 10}, sizes, results)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Echo: image, compressed|11.0 MB|6.0 MB|0.545|< 7.0 MB|yes",
		"Echo: binary, stripped|33.0 MB|20.0 MB|0.606|< 20.0 MB|NO",
		"Echo: idle RSS|60.0 MB|45.0 MB|0.750|≤ 2/3 of the peer's|NO",
		"first reconcile|0.0 µs|0.0 µs|0.500|≤ 1/2 of the peer's|yes",
		"peak RSS|0.1 KB|0.1 KB|0.510|≤ 1/2 of the peer's|NO",
		"requests|70|70|1.000|≤ 1 of the peer's|yes",
		"p50|2.0 ms|4.0 ms|2.000|< 5.0 ms|yes",
		"p99|3.0 ms|30.0 ms|10.000|< 25.0 ms|NO",
		"5 targets met, 4 missed, 0 not measured",
	} {
		if !strings.Contains(squeeze(out.String()), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := table(&out, echoRows(options{}, sizes, nil)); err != nil {
		t.Fatal(err)
	}
	if want := "1 targets met, 1 missed, 7 not measured"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}

func TestProcessorTime(t *testing.T) {
	stat := "42 (an (odd) name 1 2) S 1 42 42 0 -1 4194560 2000 0 0 0 123 45 7 8 20 0 9 0 100"
	if got, err := processorTime(stat); err != nil || got != 1680*time.Millisecond {
		t.Errorf("processor time %s, %v; want 1.68s", got, err)
	}
	for _, wrong := range []string{"", "42 (name) S 1", fmt.Sprintf("42 (name) S%s", strings.Repeat(" x", 20))} {
		if got, err := processorTime(wrong); err == nil {
			t.Errorf("processor time of %q: %s and no error", wrong, got)
		}
	}
}
