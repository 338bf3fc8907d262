package owned

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSum(t *testing.T) {
	const set = `{"f:spec":{".":{},"f:a":{},"k:{\"name\":\"<b>\"}":{"f:c":{},"f:d":{}}}}`
	for _, tc := range []struct {
		name, set string
		same      bool
	}{
		{"white space", ` { "f:spec" : {".":{ },"f:a":{},	"k:{\"name\":\"<b>\"}":{"f:c":{},"f:d":{}}}}` + "\n", true},
		{"another order", `{"f:spec":{"k:{\"name\":\"<b>\"}":{"f:d":{},"f:c":{}},"f:a":{},".":{}}}`, true},
		{"other escapes", `{"f:spec":{".":{},"f:\u0061":{},"k:{\"name\":\"\u003cb\u003e\"}":{"f:c":{},"f:d":{}}}}`, true},
		{"a field more", `{"f:spec":{".":{},"f:a":{},"f:b":{},"k:{\"name\":\"<b>\"}":{"f:c":{},"f:d":{}}}}`, false},
		{"a field less", `{"f:spec":{".":{},"k:{\"name\":\"<b>\"}":{"f:c":{},"f:d":{}}}}`, false},
		{"a field elsewhere", `{"f:spec":{".":{},"f:a":{"f:d":{}},"k:{\"name\":\"<b>\"}":{"f:c":{}}}}`, false},
		{"another name", `{"f:spec":{".":{},"f:a":{},"k:{\"name\":\"<B>\"}":{"f:c":{},"f:d":{}}}}`, false},
		{"another depth", `{"f:spec":{".":{}},"f:a":{},"k:{\"name\":\"<b>\"}":{"f:c":{},"f:d":{}}}`, false},
		{"all of it", `{"f:spec":{}}`, false},
		{"an empty set", `{}`, false},
		{"nothing", ``, false},
	} {
		if same := Sum([]byte(tc.set)) == Sum([]byte(set)); same != tc.same {
			t.Errorf("%s: the same is %t", tc.name, same)
		}
	}
	if Sum([]byte(`{}`)) == 0 || Sum(nil) != 0 {
		t.Error("an empty set is taken for none, or none for one")
	}
}

// Two sets have the same hash if they are equal, and only then.
func TestSumOfDrawnSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var draw func(depth int) map[string]any
		draw = func(depth int) map[string]any {
			set := make(map[string]any)
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				name := rapid.SampledFrom([]string{".", "f:a", "f:b", "f:<", `v:"a"`, `k:{"n":1}`}).Draw(t, "name")
				if set[name] = map[string]any{}; depth > 0 {
					set[name] = draw(depth - 1)
				}
			}
			return set
		}
		a, b := draw(3), draw(3)
		rawA, _ := json.Marshal(a)
		rawB, _ := json.Marshal(b)
		if same := string(rawA) == string(rawB); same != (Sum(rawA) == Sum(rawB)) {
			t.Fatalf("the same is %t of\n%s\n%s", same, rawA, rawB)
		}
		if other := reversed(a); Sum([]byte(other)) != Sum(rawA) {
			t.Fatalf("in another order it has another hash:\n%s\n%s", rawA, other)
		}
	})
}

// reversed encodes a set backwards, with spaces and without escapes of HTML.
func reversed(set map[string]any) string {
	var members []string
	for name, within := range set {
		members = append(members, fmt.Sprintf("%s : %s", quote(name), reversed(within.(map[string]any))))
	}
	slices.SortFunc(members, func(a, b string) int { return strings.Compare(b, a) })
	return "{ " + strings.Join(members, " , ") + " }"
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func FuzzSum(f *testing.F) {
	f.Add(set)
	f.Add(`}{"a`)
	f.Add(`["\`)
	f.Fuzz(func(t *testing.T, set string) {
		if Sum([]byte(set)) != Sum([]byte(set+" ")) && !strings.Contains(set, `"`) {
			t.Fatal("one set has two hashes")
		}
	})
}
