package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// sample is a schema with values that may fit it.
type sample struct {
	schema *Schema
	values []any
}

// drawSample draws a schema that servers accept. The structs in a set are atomic, and a
// set has no nulls. The bounds of integers are integers.
var drawSample = rapid.Custom(func(t *rapid.T) sample {
	s := sample{schema: &Schema{Type: "object", Properties: map[string]*Schema{"f": drawSchema(t, 2)}}}
	for x := range s.schema.walk() {
		if x.ListType == "set" && (composite(x.Items) || x.Items.Nullable) {
			x.ListType = ""
		}
		for _, limit := range []*float64{x.Minimum, x.Maximum, x.MultipleOf} {
			if x.Type == "integer" && limit != nil {
				*limit = math.Ceil(*limit) // servers compare integers with integers only
			}
		}
		if x.Default != nil && fits(x, x.Default) != nil {
			x.Default = nil
		}
	}
	for range 8 {
		s.values = append(s.values, drawValue(t, s.schema))
	}
	return s
})

// A value fits a schema here, with these defaults, if and only if it fits on a server.
func TestViolationsAreTheServers(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	client, err := kube.Config{Rest: cluster.Config(), Logger: slog.New(slog.DiscardHandler)}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	namespace := cluster.Namespace(t)
	group := namespace + ".pintle.test"

	var samples []sample
	var defs []*Definition
	for i := range 16 {
		samples = append(samples, drawSample.Example(i))
		kind := fmt.Sprintf("Sample%d", i)
		d := &Definition{Spec: Spec{Group: group, Scope: kube.Namespaced,
			Names: Names{Kind: kind, ListKind: kind + "List", Plural: strings.ToLower(kind), Singular: strings.ToLower(kind)}}}
		d.Name = d.Spec.Names.Plural + "." + group
		root := &Schema{Type: "object", Properties: map[string]*Schema{"spec": samples[i].schema}}
		d.Spec.Versions = []Version{{Name: "v1", Served: true, Storage: true, Schema: Validation{root}}}
		defs = append(defs, d)
		t.Cleanup(func() { _ = kube.For[Definition](client).Delete(context.Background(), d.Name) })
	}
	if err := Install(ctx, client, defs...); err != nil {
		t.Fatal(err)
	}
	let, refused := 0, 0
	for i, s := range samples {
		objects := kube.For[unstructured.Unstructured](client,
			kube.Kind{GVK: kube.GVK{Group: group, Version: "v1", Kind: defs[i].Spec.Names.Kind}}).In(namespace)
		for n, v := range s.values {
			full := withDefaults(v, s.schema)
			found := violations(s.schema, full, "")
			if len(found) > 0 && strings.Contains(string(asJSON(v)), "null") {
				continue // the server drops nulls that are not allowed
			}
			var plain any
			if err := json.Unmarshal(asJSON(v), &plain); err != nil {
				t.Fatal(err)
			}
			u, err := objects.Create(ctx,
				&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("v%d", n)},
					"spec": plain}})
			switch {
			case err != nil && !apierrors.IsInvalid(err):
				t.Fatal(err)
			case (err == nil) != (len(found) == 0):
				t.Errorf("%s under %s: here %q, the server %v", asJSON(v), asJSON(s.schema), found, err)
			case err == nil:
				let++
				if got := asJSON(u.Object["spec"]); len(unknownFields(s.schema, full, "")) == 0 && !sameJSON(got, asJSON(full)) {
					t.Errorf("%s under %s: the server has %s, here it is %s", asJSON(v), asJSON(s.schema), got, asJSON(full))
				}
			default:
				refused++
			}
		}
	}
	t.Logf("%d values were let in, %d refused", let, refused)
	if slices.Min([]int{let, refused}) < 10 {
		t.Error("that is too few")
	}
}
