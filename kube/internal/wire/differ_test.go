package wire

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// nest is a type with a part of every shape that matters for what may be left out.
type nest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              twig            `json:"spec,omitzero"`
	Status            twig            `json:"status"`
	Raw               json.RawMessage `json:"raw,omitempty"`
}

type twig struct {
	Name  string             `json:"name,omitempty"`
	Inner *twig              `json:"inner,omitempty"`
	Twigs []twig             `json:"twigs,omitempty"`
	Named map[string]twig    `json:"named,omitempty"`
	Lists map[string][]egg   `json:"lists,omitempty"`
	Eggs  []*egg             `json:"eggs"`
	Pairs [][]egg            `json:"pairs,omitempty"`
	Words []string           `json:"words,omitempty"`
	Times []metav1.Time      `json:"times,omitempty"`
	Conds []metav1.Condition `json:"conds,omitempty"`
}

type egg struct {
	Size int  `json:"size,omitempty"`
	Old  bool `json:"old"`
}

func drawTwig(t *rapid.T, depth int) twig {
	few := func(label string) int { return rapid.IntRange(0, 2).Draw(t, label) }
	word := func() string { return rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "word") }
	anEgg := func() egg { return egg{few("size"), rapid.Bool().Draw(t, "old")} }
	w := twig{Name: word()}
	for range few("eggs") {
		e := anEgg()
		w.Eggs = append(w.Eggs, &e)
		w.Pairs = append(w.Pairs, []egg{anEgg(), e})
		w.Words = append(w.Words, word())
		w.Conds = append(w.Conds, metav1.Condition{Type: word(), Message: word()})
	}
	if depth == 0 {
		return w
	}
	if rapid.Bool().Draw(t, "inner") {
		inner := drawTwig(t, depth-1)
		w.Inner = &inner
	}
	for range few("twigs") {
		w.Twigs = append(w.Twigs, drawTwig(t, depth-1))
	}
	for range few("named") {
		if w.Named == nil {
			w.Named, w.Lists = make(map[string]twig), make(map[string][]egg)
		}
		w.Named[word()] = drawTwig(t, depth-1)
		w.Lists[word()] = []egg{anEgg(), anEgg()}
	}
	return w
}

// change changes some parts of a value, and copies the rest.
func change(t *rapid.T, w twig) twig {
	raw, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	var c twig
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	other := drawTwig(t, 1)
	for i := range reflect.TypeFor[twig]().NumField() {
		if rapid.IntRange(0, 3).Draw(t, "replace") == 0 {
			reflect.ValueOf(&c).Elem().Field(i).Set(reflect.ValueOf(other).Field(i))
		}
	}
	for i := range c.Twigs {
		if rapid.Bool().Draw(t, "deeper") {
			c.Twigs[i] = change(t, c.Twigs[i])
		}
	}
	return c
}

// differences returns the paths in which two values differ, with the values of both.
func differences(into map[string][2]any, path string, a, b any) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	v, isV := a.([]any)
	w, isW := b.([]any)
	switch {
	case isX && isY:
		keys := maps.Clone(x)
		maps.Copy(keys, y)
		for key := range keys {
			p, inX := x[key]
			q, inY := y[key]
			if inX != inY {
				into[path+"."+key] = [2]any{p, q}
				continue
			}
			differences(into, path+"."+key, p, q)
		}
	case isV && isW && len(v) == len(w):
		for i := range v {
			differences(into, path+"[]", v[i], w[i])
			if !reflect.DeepEqual(v[i], w[i]) {
				into[path+"[]"] = [2]any{len(v), i} // which of the elements are different
			}
		}
	case !reflect.DeepEqual(a, b):
		into[path] = [2]any{a, b}
	}
}

// The states that Differing returns differ as the whole states do, and are smaller.
func TestDiffering(t *testing.T) {
	c := mustCodec[nest](t, false)
	entry := func(t *rapid.T, o *nest) *Entry {
		body, err := json.Marshal(map[string]any{"spec": o.Spec, "status": o.Status, "raw": o.Raw, "metadata": o.ObjectMeta})
		if err != nil {
			t.Fatal(err)
		}
		rec, err := NewRecorder(c).Record(Raw{Bytes: body})
		if err != nil {
			t.Fatal(err)
		}
		return NewEntry(rec)
	}
	generic := func(t *rapid.T, e *Entry) (fields any) {
		o := new(nest)
		err := e.Decode(c, o)
		var raw []byte
		if err == nil {
			raw, err = json.Marshal(o)
		}
		if err == nil {
			err = json.Unmarshal(raw, &fields)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fields
	}
	smaller := false
	rapid.Check(t, func(t *rapid.T) {
		was := &nest{Spec: drawTwig(t, 2), Status: drawTwig(t, 2), Raw: json.RawMessage(`{"x":[1,2]}`)}
		was.Name, was.UID = "n", "u"
		is := &nest{ObjectMeta: was.ObjectMeta, Spec: was.Spec, Status: change(t, was.Status), Raw: was.Raw}
		is.ResourceVersion = "2"
		if rapid.Bool().Draw(t, "raw") {
			is.Raw = json.RawMessage(`{"x":[1,3]}`)
		}
		a, b := entry(t, was), entry(t, is)
		x, y := c.Differing(a, b)
		want, got := make(map[string][2]any), make(map[string][2]any)
		differences(want, "", generic(t, a), generic(t, b))
		differences(got, "", generic(t, x), generic(t, y))
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s\n%s\ndiffer in\n%v\nwant\n%v", x.body().Bytes, y.body().Bytes,
				slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		if x.Size() > a.Size()+5*len(a.body().Bytes) {
			t.Errorf("%d bytes became %d", a.Size(), x.Size())
		}
		smaller = smaller || x.Size() < a.Size()/2
	})
	if !smaller {
		t.Error("nothing was ever left out")
	}
}
