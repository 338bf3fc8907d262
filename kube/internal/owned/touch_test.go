package owned

import "testing"

func TestTouch(t *testing.T) {
	fields, err := Parse([]byte(set))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"spec":                      true,
		"spec.replicas":             true,
		"spec.paused":               false,
		"spec.strategy.type":        true, // the whole field is owned
		"spec.ports":                true,
		"spec.ports[7].targetPort":  true, // the port of any item
		"spec.ports[1].nodePort":    false,
		"spec.args[0]":              true,
		"metadata.labels[app]":      true,
		"metadata.labels[other]":    false,
		"metadata.labels[a.b/c]":    false,
		"metadata.annotations[app]": false,
		"status":                    false,
		"spec.ports[":               true,
		"":                          true,
	} {
		if got := fields.Touch(path); got != want {
			t.Errorf("%q: %t, want %t", path, got, want)
		}
	}
}
