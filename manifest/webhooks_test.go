package manifest

import "testing"

// A program outside a pod installs definitions that lead to the Service of the operator in the cluster,
// also if no namespace is set.
func TestPlaceHasTheDefaultNamespace(t *testing.T) {
	for _, o := range []Operator{{Name: "barn"}, {Name: "stable", Install: Install{Namespace: "barn"}}} {
		if got := o.place().Namespace; got != "barn" {
			t.Errorf("%s: %q", o.Name, got)
		}
	}
}
