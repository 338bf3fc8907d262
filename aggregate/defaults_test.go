package aggregate

import (
	"context"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pintle-go/pintle/kube"
)

// defaulted is a kind with fields that Default may set, change and remove.
type defaulted struct {
	kube.Object
	Spec struct {
		Weight int64             `json:"weight"` // is encoded also if the client left it out
		Labels map[string]string `json:"labels,omitempty"`
		Names  []string          `json:"names,omitempty"`
		IDs    []int64           `json:"ids,omitempty"`
		Limit  int64             `json:"limit,omitempty"`
		Pairs  []pair            `json:"pairs,omitempty"`
	} `json:"spec"`
	Note string `json:"note,omitempty"`
}

// pair has a field whose null is kept.
type pair struct {
	Value *string `json:"value"`
}

// TestDefaults sets, changes and removes fields. Fields that Default does not touch stay as the client
// sent them, also those that the type does not know.
func TestDefaults(t *testing.T) {
	const large = int64(1<<53 + 1)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"name": "a"},
		"spec": map[string]any{
			"unknown": large, "names": []any{"a", "b"}, "labels": map[string]any{"kept": "1", "gone": "2"},
			"ids": []any{large}, "pairs": []any{map[string]any{"value": nil}},
		},
		"note": "gone",
	}}
	err := setDefaults(t.Context(), u, func(_ context.Context, d *defaulted) error {
		delete(d.Spec.Labels, "gone")
		d.Spec.Labels["added"] = "3"
		d.Spec.Names = append(d.Spec.Names, "c")
		d.Spec.IDs, d.Spec.Limit = append(d.Spec.IDs, 1), math.MaxInt64
		d.Spec.Pairs = append(d.Spec.Pairs, pair{})
		d.Note = ""
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"name": "a"},
		"spec": map[string]any{
			"unknown": large, "names": []any{"a", "b", "c"}, "labels": map[string]any{"kept": "1", "added": "3"},
			"ids": []any{large, int64(1)}, "limit": int64(math.MaxInt64),
			"pairs": []any{map[string]any{"value": nil}, map[string]any{"value": nil}},
		},
	}
	if diff := cmp.Diff(want, u.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
