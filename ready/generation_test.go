package ready_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// observing is an object whose status and whose condition may be of any generation.
type observing[G any] struct {
	kube.Object
	Status struct {
		ObservedGeneration G
		Conditions         []observed[G]
	}
}

type observed[G any] struct {
	Type, Status       string
	ObservedGeneration G
}

func stateOf[G any](ofStatus, ofCondition G) ready.State {
	o := new(observing[G])
	o.Generation = 5
	o.Status.ObservedGeneration = ofStatus
	o.Status.Conditions = []observed[G]{{"Available", "True", ofCondition}}
	return ready.Of(o)
}

// A status of an earlier spec is not ready, however its kind keeps the observed generation.
// What cannot be read as a number is not taken for up to date.
func TestObservedGenerationOfAnyForm(t *testing.T) {
	earlier := func(state ready.State, what string) {
		t.Helper()
		if state.Phase != ready.Waiting {
			t.Errorf("%s: %v", what, state)
		}
	}
	latest := func(state ready.State, what string) {
		t.Helper()
		if state.Phase != ready.Ready {
			t.Errorf("%s: %v", what, state)
		}
	}
	for name, values := range map[string]struct{ earlier, latest []any }{
		"status": {
			[]any{int64(4), "4", " 4 ", 4.0, 4.5, "4.0", "five", true, map[string]any{"is": "4"}, json.Number("4")},
			[]any{int64(5), "5", 5.0, "5.0", nil, "", int64(0), 6.0},
		},
		"condition": {
			[]any{int64(4), "4", 4.0, "five"},
			[]any{int64(5), "5", 5.0, nil, ""},
		},
	} {
		judge := func(value any) (ready.State, string) {
			status := map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": "True"}}}
			if name == "status" {
				status["observedGeneration"] = value
			} else {
				status["conditions"].([]any)[0].(map[string]any)["observedGeneration"] = value
			}
			if value == nil {
				delete(status, "observedGeneration")
			}
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Rollout",
				"metadata": map[string]any{"name": "a", "generation": int64(5)}, "status": status}}
			return ready.Of(u), fmt.Sprintf("an unstructured object whose %s has %T %v", name, value, value)
		}
		for _, value := range values.earlier {
			earlier(judge(value))
		}
		for _, value := range values.latest {
			latest(judge(value))
		}
	}
	four, five := intstr.FromString("4"), intstr.FromInt32(5)
	earlier(stateOf("4", ""), "a text")
	earlier(stateOf("", "4"), "a text of a condition")
	earlier(stateOf(4.0, 0), "a float")
	earlier(stateOf(0, 4.0), "a float of a condition")
	earlier(stateOf(math.NaN(), 0), "no number")
	earlier(stateOf(uint8(4), 0), "an unsigned number")
	earlier(stateOf[any]("4", nil), "an any")
	earlier(stateOf(four, intstr.IntOrString{}), "a number or text")
	earlier(stateOf("x", ""), "a name")
	latest(stateOf("5", "5"), "the latest text")
	latest(stateOf(5.0, 5), "the latest float")
	latest(stateOf(uint(5), 5), "the latest unsigned number")
	latest(stateOf[any](int64(5), nil), "the latest any")
	latest(stateOf(five, intstr.IntOrString{}), "the latest number or text")
	latest(stateOf("", ""), "none")
	latest(stateOf(uint64(math.MaxUint64), 0), "the largest number")
}
