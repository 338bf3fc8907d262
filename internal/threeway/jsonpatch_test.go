package threeway

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// applied applies a JSON patch with the library of the API server.
func applied(t rapid.TB, raw, patch []byte) []byte {
	t.Helper()
	if patch == nil {
		return raw
	}
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatalf("decode %s: %v", patch, err)
	}
	for _, op := range ops {
		if k := op.Kind(); k != "add" && k != "replace" && k != "remove" {
			t.Fatalf("operation %s in %s", k, patch)
		}
	}
	out, err := ops.Apply(raw)
	if err != nil {
		t.Fatalf("apply %s to %s: %v", patch, raw, err)
	}
	ours, err := ApplyJSONPatch(raw, patch)
	if err != nil || !reflect.DeepEqual(decodeJSON(t, ours), decodeJSON(t, out)) {
		t.Fatalf("we applied %s to %s: %s, %v\nwant %s", patch, raw, ours, err, out)
	}
	return out
}

func jsonModify[T any](t testing.TB, raw string, fixed []string, change func(*T)) (patch, outcome string, err error) {
	t.Helper()
	before, after, project := read(t, raw, change)
	p, err := JSONPatch([]byte(raw), before, after, project, fixed...)
	if err != nil {
		return "", "", err
	}
	return string(p), string(applied(t, []byte(raw), p)), nil
}

// podView names three of a pod's fields.
type podView struct {
	Metadata struct {
		Name   string            `json:"name,omitempty"`
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Node       string `json:"nodeName,omitempty"`
		Containers []struct {
			Name  string `json:"name"`
			Image string `json:"image,omitempty"`
		} `json:"containers"`
	} `json:"spec,omitzero"`
}

func TestJSONPatch(t *testing.T) {
	type pod = podView
	const two = `{"metadata":{"name":"p","uid":"7"},"spec":{"containers":[{"name":"a","image":"x","tty":true},` +
		`{"name":"b","image":"y","ports":[{"containerPort":1}]}],"n":9007199254740993,"e":1e3,"z":null}}`
	for name, test := range map[string]struct {
		raw    string
		change func(*pod)
		want   string
	}{
		"nothing": {two, func(*pod) {}, ``},
		"a field in an item": {
			two, func(p *pod) { p.Spec.Containers[1].Image = "z" },
			`[{"op":"replace","path":"/spec/containers/1/image","value":"z"}]`,
		},
		"a missing parent": {
			two, func(p *pod) { p.Metadata.Labels = map[string]string{"a/b~c": "1"} },
			`[{"op":"add","path":"/metadata/labels","value":{"a/b~c":"1"}}]`,
		},
		"a pointer is escaped": {
			`{"metadata":{"labels":{"x/y":"1","~1":"2"}}}`,
			func(p *pod) { p.Metadata.Labels = map[string]string{"x/y": "3"} },
			`[{"op":"remove","path":"/metadata/labels/~01"},{"op":"replace","path":"/metadata/labels/x~1y","value":"3"}]`,
		},
		"a parent that is null": {
			`{"metadata":{"labels":null},"spec":null}`, func(p *pod) { p.Spec.Node = "n" },
			`[{"op":"add","path":"/spec","value":{"nodeName":"n"}}]`,
		},
		"an item comes, and the others keep what the type does not know": {
			two, func(p *pod) {
				c := p.Spec.Containers[0]
				c.Name = "c"
				p.Spec.Containers = append(p.Spec.Containers, c)
			},
			`[{"op":"replace","path":"/spec/containers","value":[{"image":"x","name":"a","tty":true},` +
				`{"image":"y","name":"b","ports":[{"containerPort":1}]},{"image":"x","name":"c"}]}]`,
		},
		"an item goes": {
			two, func(p *pod) { p.Spec.Containers = p.Spec.Containers[1:] },
			`[{"op":"replace","path":"/spec/containers","value":[{"image":"y","name":"b","ports":[{"containerPort":1}]}]}]`,
		},
		"a list with null is sent whole": {
			`{"metadata":{},"spec":{"containers":[{"name":"a"},null]}}`, func(p *pod) { p.Spec.Containers[0].Image = "x" },
			`[{"op":"replace","path":"/spec/containers","value":[{"image":"x","name":"a"},null]}]`,
		},
		"a field goes": {
			`{"metadata":{},"spec":{"nodeName":"n","u":1}}`, func(p *pod) { p.Spec.Node = "" },
			`[{"op":"remove","path":"/spec/nodeName"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := jsonModify(t, test.raw, nil, test.change)
			if err != nil || got != test.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, test.want)
			}
		})
	}
}

// Numbers that no Go type holds stay as they are, to the digit.
func TestJSONPatchKeepsNumbers(t *testing.T) {
	raw := `{"metadata":{},"spec":{"a":9007199254740993,"b":1e3,"c":1.50,"l":[{"name":"x","big":1e300}]}}`
	patch, out, err := jsonModify(t, raw, nil, func(p *podView) { p.Spec.Node = "n" })
	if err != nil || strings.ContainsAny(patch, "0123456789") {
		t.Errorf("got %s, %v", patch, err)
	}
	for _, number := range []string{"9007199254740993", "1e3", "1.50", "1e300"} {
		if !strings.Contains(out, number) {
			t.Errorf("%s is lost in %s", number, out)
		}
	}
}

// A null that the type tells from a missing member can be stored, which a merge patch cannot do.
func TestJSONPatchStoresNull(t *testing.T) {
	type loose struct {
		X map[string]any `json:"x,omitempty"`
	}
	patch, _, err := jsonModify(t, `{"x":{"a":1}}`, nil, func(l *loose) { l.X["b"] = nil })
	if want := `[{"op":"add","path":"/x/b","value":null}]`; err != nil || patch != want {
		t.Errorf("got %s, %v, want %s", patch, err, want)
	}
}

func TestJSONPatchFixed(t *testing.T) {
	fixed := []string{"/metadata/name", "/status"}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"other": {func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, ""},
		"name":  {func(p *corev1.Pod) { p.Name = "q" }, "change /metadata/name: it cannot be changed here"},
		"status": {
			func(p *corev1.Pod) { p.Status.Phase = "Running" }, "change /status: it cannot be changed here",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := jsonModify(t, `{"metadata":{"name":"p"},"spec":{"containers":[]}}`, fixed, test.change)
			if (err == nil) != (test.want == "") || err != nil && (err.Error() != test.want || !errors.Is(err, ErrFixed)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A member that is there twice has no meaning on which two readers agree.
func TestJSONPatchRefusesDuplicates(t *testing.T) {
	_, _, err := jsonModify(t, `{"metadata":{},"spec":{"nodeName":"a","nodeName":"b"}}`, nil,
		func(p *podView) { p.Spec.Node = "c" })
	if err == nil || !strings.Contains(err.Error(), "duplicate") {
		t.Errorf("got %v", err)
	}
}

// A patch makes the change, and nothing else, when another library applies it: for any type, any
// members that the type does not know, and any change.
func TestJSONPatchProperties(t *testing.T) {
	var patches, refused int
	rapid.Check(t, func(t *rapid.T) {
		root, project, raw, before := genType(t)
		after, err := project(mustJSON(t, root.change(t, decodeJSON(t, before))))
		if err != nil {
			t.Fatal(err)
		}
		patch, err := JSONPatch(raw, before, after, project)
		if errors.Is(err, ErrAmbiguous) {
			refused++
			return
		}
		story := fmt.Sprintf("raw    %s\nbefore %s\nafter  %s\npatch  %s", raw, before, after, patch)
		if err != nil {
			t.Fatalf("%v\n%s", err, story)
		}
		patches++
		if (patch == nil) != reflect.DeepEqual(decodeJSON(t, before), decodeJSON(t, after)) {
			t.Fatalf("is it a change?\n%s", story)
		}
		next := decodeJSON(t, applied(t, raw, patch))
		if got, _ := root.project(next); !reflect.DeepEqual(got, decodeJSON(t, after)) {
			t.Fatalf("got %v\n%s", got, story)
		}
		if err := root.checkUnknown("", decodeJSON(t, raw), next); err != nil {
			t.Fatalf("lost: %v\n%s", err, story)
		}
		if again, err := JSONPatch(mustJSON(t, next), after, after, project); again != nil || err != nil {
			t.Fatalf("again: %s, %v\n%s", again, err, story)
		}
	})
	t.Logf("%d patches, %d refused as ambiguous", patches, refused)
	if refused > patches/4 {
		t.Errorf("%d of %d changes were refused", refused, refused+patches)
	}
}

// FuzzJSONPatch takes the JSON of any two objects. A type reads the first object, and a change turns
// that into the second one.
func FuzzJSONPatch(f *testing.F) {
	for _, seed := range [][2]string{
		{`{}`, `{"a":1}`},
		{`{"a":9007199254740993,"u":1.50}`, `{"b":{"l":[{"a":1}]}}`},
		{`{"l":[{"a":1,"u":1},{"a":2,"u":2}]}`, `{"l":[{"a":2},{"a":1},{"a":3}]}`},
		{`{"m":{"k":{"name":"n","u":1},"":{}},"s":{"u":{}}}`, `{"m":{"/~":{"r":["a"]}},"s":{"name":"x"}}`},
		{`{"x":[{"a":null},[1,null]],"b":null}`, `{"x":{"y":null,"z":[{"a":null}]},"b":{"a":1}}`},
		{`{"x":{"a":null}}`, `{"x":{"a":null,"b":null}}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, raw, other []byte) {
		before, after, ok := shown(raw, other)
		if !ok {
			return
		}
		patch, err := JSONPatch(raw, before, after, projectFuzzed)
		if errors.Is(err, ErrAmbiguous) || errors.Is(err, ErrInexpressible) {
			return
		}
		if err != nil {
			t.Fatalf("%v\nraw    %s\nbefore %s\nafter  %s", err, raw, before, after)
		}
		got, err := projectFuzzed(applied(t, raw, patch))
		if err != nil {
			t.Fatal(err)
		}
		if after, err = projectFuzzed(after); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(decodeJSON(t, got), decodeJSON(t, after)) {
			t.Fatalf("got    %s\nraw    %s\nbefore %s\nafter  %s\npatch  %s", got, raw, before, after, patch)
		}
	})
}
