package webhooktest_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/webhook/webhooktest"
)

// Plan has fields of most types that a schema may have.
type Plan struct {
	kube.Object
	Spec struct {
		When    string                        `json:"when" crd:"pattern='^[0-9* ]+$',maxLength=20"`
		Zone    *string                       `json:"zone,omitempty"`
		Size    resource.Quantity             `json:"size,omitzero"`
		Port    intstr.IntOrString            `json:"port,omitzero"`
		Wait    *metav1.Duration              `json:"wait,omitempty"`
		Since   *metav1.Time                  `json:"since,omitempty"`
		Count   int64                         `json:"count,omitempty"`
		Few     int32                         `json:"few" crd:"min=1,max=9,multipleOf=2"`
		Share   float64                       `json:"share,omitempty"`
		Any     any                           `json:"any,omitempty"`
		Raw     json.RawMessage               `json:"raw,omitempty"`
		Object  *runtime.RawExtension         `json:"object,omitempty"`
		Data    []byte                        `json:"data,omitempty"`
		Names   []string                      `json:"names,omitempty" crd:"listType=set,maxItems=4"`
		Steps   []Step                        `json:"steps,omitempty" crd:"listType=map,listMapKey=name"`
		Loose   []Step                        `json:"loose,omitempty"`
		Limits  map[string]resource.Quantity  `json:"limits,omitempty"`
		Nested  map[string]map[string][]int64 `json:"nested,omitempty"`
		Mode    string                        `json:"mode,omitempty" crd:"enum=A|B|C"`
		Default string                        `json:"default,omitempty" crd:"default=x"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

type Step struct {
	Name string `json:"name"`
	User int64  `json:"user,omitempty"`
	On   bool   `json:"on"`
}

func (Plan) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v2", Kind: "Plan"} }

// Old lacks most of them.
type Old struct {
	kube.Object
	Spec struct {
		Cron    string   `json:"cron"`
		Names   []string `json:"names"`
		Steps   []string `json:"steps,omitempty"`
		Loose   []string `json:"loose,omitempty"`
		Enabled bool     `json:"enabled,omitempty"` // mode A
		Count   int64    `json:"count"`
		Any     any      `json:"any,omitempty"`
		Contact string   `json:"contact,omitempty"`
	} `json:"spec"`
}

func (Old) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Plan"} }

func up(from *Old, to *Plan) error {
	to.Spec.When, to.Spec.Names = from.Spec.Cron, from.Spec.Names
	to.Spec.Count, to.Spec.Any = from.Spec.Count, from.Spec.Any
	to.Spec.Mode = "B"
	if from.Spec.Enabled {
		to.Spec.Mode = "A"
	}
	for _, s := range from.Spec.Steps {
		to.Spec.Steps = append(to.Spec.Steps, Step{Name: s})
	}
	for _, s := range from.Spec.Loose {
		to.Spec.Loose = append(to.Spec.Loose, Step{Name: s})
	}
	return nil
}

func down(from *Plan, to *Old) error {
	to.Spec.Cron, to.Spec.Names = from.Spec.When, from.Spec.Names
	to.Spec.Count, to.Spec.Any = from.Spec.Count, from.Spec.Any
	to.Spec.Enabled = from.Spec.Mode == "A"
	for _, s := range from.Spec.Steps {
		to.Spec.Steps = append(to.Spec.Steps, s.Name)
	}
	for _, s := range from.Spec.Loose {
		to.Spec.Loose = append(to.Spec.Loose, s.Name)
	}
	return nil
}

func plans(up func(*Old, *Plan) error, down func(*Plan, *Old) error) *crd.Definition {
	return crd.Join(crd.Of[Plan](crd.Options{}), crd.Converts(crd.Of[Old](crd.Options{}), up, down))
}

// Values of most types come back in both directions.
func TestRoundTrip(t *testing.T) { webhooktest.RoundTrip(t, plans(up, down)) }

// wrong are functions that RoundTrip finds.
var wrong = map[string]*crd.Definition{
	"refuses": plans(up, func(from *Plan, to *Old) error {
		if from.Spec.Mode == "C" {
			return errors.New("no mode C")
		}
		return down(from, to)
	}),
	"labels": plans(up, func(from *Plan, to *Old) error {
		to.Labels = nil
		return down(from, to)
	}),
	"once": plans(up, func(from *Plan, to *Old) error {
		to.Labels["calls"] = os.Getenv("WRONG") + strings.Repeat("x", len(calls))
		calls = append(calls, 1)
		return down(from, to)
	}),
}

var calls []int

// RoundTrip fails for functions that are wrong, and says the seed.
func TestRoundTripFinds(t *testing.T) {
	if name := os.Getenv("WRONG"); name != "" {
		webhooktest.RoundTrip(t, wrong[name])
		return
	}
	for name, want := range map[string]string{"refuses": "no mode C", "labels": "does not come back", "once": "twice"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRoundTripFinds$", "-rapid.nofailfile")
		cmd.Env = append(os.Environ(), "WRONG="+name)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "-rapid.seed=") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
