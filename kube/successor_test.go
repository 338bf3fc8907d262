package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	applies = metav1.ManagedFieldsOperationApply
	updates = metav1.ManagedFieldsOperationUpdate
)

func owns(manager string, by metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: by, Subresource: subresource, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields),
	}
}

// owners returns the fields of each entry in one form, so that they can be compared.
func owners(t *testing.T, entries []metav1.ManagedFieldsEntry) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, e := range entries {
		set := make(map[string]any)
		if err := addFields(set, e.FieldsV1.GetRawBytes()); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("%s %s/%s", e.Manager, e.Operation, e.Subresource)
		if _, twice := all[id]; twice || e.APIVersion != "v1" || e.FieldsType != "FieldsV1" {
			t.Errorf("the entry %s has the API version %q and the type %q, twice: %t", id, e.APIVersion, e.FieldsType, twice)
		}
		all[id] = string(text)
	}
	return all
}

func TestSuccessorTakesOver(t *testing.T) {
	spec, status := successor{"heir", "", "v1", []string{"old"}}, successor{"heir", "status", "v1", []string{"old"}}
	for name, tc := range map[string]struct {
		heir successor
		is   []metav1.ManagedFieldsEntry
		want map[string]string // nil: no change
	}{
		"what was updated": {
			spec, []metav1.ManagedFieldsEntry{
				owns("heir", applies, "", `{"f:spec":{"f:a":{}}}`), owns("old", updates, "", `{"f:spec":{"f:b":{}}}`),
			},
			map[string]string{"heir Apply/": `{"f:spec":{"f:a":{},"f:b":{}}}`},
		},
		"what was applied": {
			spec, []metav1.ManagedFieldsEntry{
				owns("old", applies, "", `{"f:spec":{"f:a":{}}}`), owns("heir", applies, "", `{"f:spec":{"f:a":{}}}`),
			},
			map[string]string{"heir Apply/": `{"f:spec":{"f:a":{}}}`},
		},
		"both, although the heir owns nothing": {
			spec, []metav1.ManagedFieldsEntry{
				owns("old", applies, "", `{"f:spec":{"f:a":{}}}`), owns("old", updates, "", `{"f:spec":{"f:b":{}}}`),
			},
			map[string]string{"heir Apply/": `{"f:spec":{"f:a":{},"f:b":{}}}`},
		},
		"neither finalizers nor a status without a subresource": {
			spec, []metav1.ManagedFieldsEntry{owns("old", updates, "",
				`{"f:metadata":{".":{},"f:labels":{"f:a":{}},"f:finalizers":{".":{},"v:\"x\"":{}}},"f:status":{"f:c":{}}}`)},
			map[string]string{
				"heir Apply/": `{"f:metadata":{"f:labels":{"f:a":{}}}}`,
				"old Update/": `{"f:metadata":{"f:finalizers":{".":{},"v:\"x\"":{}}},"f:status":{"f:c":{}}}`,
			},
		},
		"a status": {
			status, []metav1.ManagedFieldsEntry{
				owns("old", updates, "", `{"f:spec":{"f:a":{}}}`), owns("old", updates, "status", `{"f:status":{"f:c":{}}}`),
			},
			map[string]string{"heir Apply/status": `{"f:status":{"f:c":{}}}`, "old Update/": `{"f:spec":{"f:a":{}}}`},
		},
		"not of others, and not twice": {
			spec, []metav1.ManagedFieldsEntry{
				owns("heir", applies, "", `{"f:spec":{"f:a":{}}}`), owns("x", updates, "", `{"f:spec":{"f:b":{}}}`),
				owns("old", updates, "", `{"f:metadata":{"f:finalizers":{"v:\"x\"":{}}}}`),
				owns("old", updates, "status", `{"f:status":{}}`),
			}, nil,
		},
		"not of itself": {
			successor{"heir", "", "v1", []string{"heir"}},
			[]metav1.ManagedFieldsEntry{owns("heir", applies, "", `{"f:spec":{"f:a":{}}}`)}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.heir.takeOver(tc.is)
			checkOwners(t, got, err, tc.want)
		})
	}
}

func checkOwners(t *testing.T, got []metav1.ManagedFieldsEntry, err error, want map[string]string) {
	t.Helper()
	switch {
	case err != nil:
		t.Fatal(err)
	case want == nil && got != nil:
		t.Errorf("got %v, want no change", owners(t, got))
	case want != nil && !maps.Equal(owners(t, got), want):
		t.Errorf("got %v, want %v", owners(t, got), want)
	}
}

func TestSuccessorRestores(t *testing.T) {
	const rest = beforeFirstApply
	for name, tc := range map[string]struct {
		applied string
		is      []metav1.ManagedFieldsEntry
		want    map[string]string // nil: no change
	}{
		"what it applied and applies no more": {
			`{"f:data":{"f:a":{},"f:b":{}}}`, []metav1.ManagedFieldsEntry{
				owns("heir", applies, "", `{"f:data":{"f:a":{}}}`),
				owns(rest, updates, "", `{"f:data":{".":{},"f:a":{},"f:b":{},"f:c":{}}}`),
			},
			map[string]string{
				"heir Apply/": `{"f:data":{"f:a":{},"f:b":{}}}`, rest + " Update/": `{"f:data":{".":{},"f:a":{},"f:c":{}}}`,
			},
		},
		"nothing that it still applies": {
			`{"f:data":{"f:a":{}}}`, []metav1.ManagedFieldsEntry{
				owns("heir", applies, "", `{"f:data":{"f:a":{}}}`),
				owns(rest, updates, "", `{"f:data":{".":{},"f:a":{},"f:c":{}}}`),
			}, nil,
		},
		"an item with its defaults": {
			`{"f:c":{"k:{\"n\":1}":{".":{},"f:n":{},"f:i":{}},"k:{\"n\":2}":{".":{},"f:n":{},"f:i":{}}}}`,
			[]metav1.ManagedFieldsEntry{
				owns("heir", applies, "", `{"f:c":{"k:{\"n\":1}":{".":{},"f:n":{}}}}`),
				owns(rest, updates, "", `{"f:c":{".":{},"k:{\"n\":1}":{".":{},"f:n":{},"f:i":{},"f:default":{}},`+
					`"k:{\"n\":2}":{".":{},"f:n":{},"f:i":{},"f:default":{}},"k:{\"n\":3}":{".":{},"f:n":{}}}}`),
			},
			map[string]string{
				"heir Apply/": `{"f:c":{"k:{\"n\":1}":{".":{},"f:i":{},"f:n":{}},` +
					`"k:{\"n\":2}":{".":{},"f:default":{},"f:i":{},"f:n":{}}}}`,
				rest + " Update/": `{"f:c":{".":{},"k:{\"n\":1}":{".":{},"f:default":{},"f:n":{}},` +
					`"k:{\"n\":3}":{".":{},"f:n":{}}}}`,
			},
		},
		"all, and no empty shell": {
			`{"f:data":{"f:a":{}}}`, []metav1.ManagedFieldsEntry{owns(rest, updates, "", `{"f:data":{".":{},"f:a":{}}}`)},
			map[string]string{"heir Apply/": `{"f:data":{".":{},"f:a":{}}}`},
		},
		"not what others have put into an empty map": {
			`{"f:data":{}}`, []metav1.ManagedFieldsEntry{owns(rest, updates, "", `{"f:data":{".":{},"f:a":{}}}`)}, nil,
		},
		"not what is a whole to others": {
			`{"f:list":{"k:{\"n\":1}":{".":{}}}}`, []metav1.ManagedFieldsEntry{owns(rest, updates, "", `{"f:list":{}}`)}, nil,
		},
		"no owner references": {
			`{"f:metadata":{"f:ownerReferences":{"i:0":{}},"f:labels":{"f:a":{}}}}`,
			[]metav1.ManagedFieldsEntry{owns(rest, updates, "status", `{"f:status":{"f:x":{}}}`)},
			map[string]string{
				"heir Apply/": `{"f:metadata":{"f:labels":{"f:a":{}}}}`, rest + " Update/status": `{"f:status":{"f:x":{}}}`,
			},
		},
		"what nobody owns, if another part was applied first": {
			`{"f:data":{"f:a":{},"f:b":{},"f:c":{}}}`, []metav1.ManagedFieldsEntry{
				owns("heir", applies, "", `{"f:data":{"f:a":{}}}`), owns("x", applies, "", `{"f:data":{"f:c":{}}}`),
				owns(rest, updates, "status", `{"f:status":{"f:x":{}}}`),
			},
			map[string]string{
				"heir Apply/": `{"f:data":{"f:a":{},"f:b":{}}}`, "x Apply/": `{"f:data":{"f:c":{}}}`,
				rest + " Update/status": `{"f:status":{"f:x":{}}}`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			known := make(map[string]any)
			if err := addFields(known, []byte(tc.applied)); err != nil {
				t.Fatal(err)
			}
			got, err := successor{"heir", "", "v1", nil}.restore(tc.is, known)
			checkOwners(t, got, err, tc.want)
		})
	}
}

// A taking over gives all fields of the former managers, and no others, to the successor.
// It takes nothing from anybody else, and is done once.
func TestSuccessorTakesAllOnce(t *testing.T) {
	each(t, func(t *testing.T, r *rand.Rand) {
		heir := successor{"heir", "", "v1", []string{"old", "older"}}
		var is []metav1.ManagedFieldsEntry
		all := make(map[string]any)
		for _, manager := range []string{"heir", "old", "older", "x"} {
			for _, by := range []metav1.ManagedFieldsOperationType{applies, updates} {
				if set := someFields(r, 3); r.IntN(3) > 0 && len(set) > 0 {
					is = append(is, owns(manager, by, "", textOf(t, set)))
					if manager != "x" && (manager != "heir" || by == applies) {
						merge(all, setOf(t, textOf(t, set)))
					}
				}
			}
		}
		r.Shuffle(len(is), func(i, j int) { is[i], is[j] = is[j], is[i] })
		was := owners(t, is)
		fields, err := heir.takeOver(is)
		if err != nil {
			t.Fatal(err)
		}
		if fields == nil {
			for _, e := range is {
				if slices.Contains(heir.former, e.Manager) {
					t.Fatalf("%s keeps %s", e.Manager, e.FieldsV1.GetRawBytes())
				}
			}
			return
		}
		want := map[string]string{"heir Apply/": textOf(t, all)}
		for _, id := range []string{"heir Update/", "x Apply/", "x Update/"} {
			if text, ok := was[id]; ok {
				want[id] = text
			}
		}
		checkOwners(t, fields, nil, want)
		again, err := heir.takeOver(fields)
		checkOwners(t, again, err, nil)
	})
}

// What is restored was applied, or is in an item that was applied and is so no more. No
// field is lost, nobody but the rest loses one, and it is done once.
func TestSuccessorRestoresWhatItApplied(t *testing.T) {
	each(t, func(t *testing.T, r *rand.Rand) {
		heir := successor{"heir", "", "v1", nil}
		applied, now, rest := someFields(r, 3), someFields(r, 3), someFields(r, 3)
		merge(rest, setOf(t, textOf(t, applied)))
		merge(rest, setOf(t, textOf(t, now)))
		is := []metav1.ManagedFieldsEntry{
			owns("x", applies, "", textOf(t, someFields(r, 2))), owns(beforeFirstApply, updates, "", textOf(t, rest)),
			owns("heir", applies, "", textOf(t, now)),
		}
		was := owners(t, is)
		fields, err := heir.restore(is, setOf(t, textOf(t, applied)))
		if err != nil {
			t.Fatal(err)
		}
		if fields == nil {
			return
		}
		got := owners(t, fields)
		if got["x Apply/"] != was["x Apply/"] {
			t.Errorf("x owns %s, not %s", got["x Apply/"], was["x Apply/"])
		}
		owned := setOf(t, got["heir Apply/"])
		if lost := minus(setOf(t, was["heir Apply/"]), owned); len(lost) > 0 {
			t.Errorf("the heir lost %v", lost)
		}
		both := setOf(t, got["heir Apply/"])
		if text, ok := got[beforeFirstApply+" Update/"]; ok {
			merge(both, setOf(t, text))
		}
		if !reflect.DeepEqual(both, rest) {
			t.Errorf("%v became %v", rest, both)
		}
		checkWithin(t, owned, applied, now)
		again, err := heir.restore(fields, setOf(t, textOf(t, applied)))
		checkOwners(t, again, err, nil)
	})
}

// checkWithin checks that a manager owns no more than it applied or applies.
func checkWithin(t *testing.T, owned, applied, now map[string]any) {
	t.Helper()
	for name, v := range owned {
		was, known := applied[name].(map[string]any)
		is, still := now[name].(map[string]any)
		switch {
		case name == "." || !still && isItem(name) && known:
		case !known && !still:
			t.Errorf("%s was not applied", name)
		default:
			checkWithin(t, v.(map[string]any), was, is)
		}
	}
}

func each(t *testing.T, f func(*testing.T, *rand.Rand)) {
	for seed := range uint64(2000) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

// someFields returns a random set of fields. A name has fields in it, or none, in all sets.
func someFields(r *rand.Rand, depth int) map[string]any {
	set := make(map[string]any)
	for _, name := range []string{"f:a", "f:b", `k:{"n":1}`} {
		switch {
		case r.IntN(3) == 0:
		case name == "f:b" || depth == 0 && !isItem(name):
			set[name] = map[string]any{}
		default:
			within := map[string]any{}
			if depth > 0 {
				within = someFields(r, depth-1)
			}
			if isItem(name) {
				within["."] = map[string]any{}
			}
			if len(within) > 0 {
				set[name] = within
			}
		}
	}
	return set
}

func textOf(t *testing.T, set map[string]any) string {
	t.Helper()
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func setOf(t *testing.T, text string) map[string]any {
	t.Helper()
	set := make(map[string]any)
	if err := addFields(set, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return set
}
