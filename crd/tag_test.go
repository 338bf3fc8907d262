package crd

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestParseTag(t *testing.T) {
	for _, c := range []struct {
		tag  string
		want []directive
		err  string
	}{
		{tag: "min=0", want: []directive{{key: "min", value: "0", given: true}}},
		{tag: " min = 0 , max=5 ", want: []directive{{key: "min", value: "0", given: true},
			{key: "max", value: "5", given: true}}},
		{tag: "immutable", want: []directive{{key: "immutable"}}},
		{tag: "default=", want: []directive{{key: "default", given: true}}},
		{tag: "default=''", want: []directive{{key: "default", given: true}}},
		{tag: "pattern='^a{1,3}$',minLength=1",
			want: []directive{{key: "pattern", value: "^a{1,3}$", given: true}, {key: "minLength", value: "1", given: true}}},
		{tag: "pattern=^a=b$", want: []directive{{key: "pattern", value: "^a=b$", given: true}}},
		{tag: "rule='self == ''a'''", want: []directive{{key: "rule", value: "self == 'a'", given: true}}},
		{tag: "rule=self == 'a'", want: []directive{{key: "rule", value: "self == 'a'", given: true}}},
		{tag: "items.values.max=1", want: []directive{{path: []string{"items", "values"}, key: "max", value: "1",
			given: true}}},
		{tag: "rule=a,message=b,rule=c",
			want: []directive{{key: "rule", value: "a", given: true}, {key: "message", value: "b", given: true},
				{key: "rule", value: "c", given: true}}},
		{tag: "mni=0", err: `unknown key "mni": did you mean min?`},
		{tag: "minimum=0", err: `unknown key "minimum": did you mean min?`},
		{tag: "default=1,Maximum=2", err: `unknown key "Maximum": did you mean max?`},
		{tag: "minlength=0", err: `unknown key "minlength": did you mean minLength?`},
		{tag: "optinal", err: `did you mean optional?`},
		{tag: "pattern=^a{1,3}$", err: `unknown key "3}$" (a value with a comma is quoted: pattern='…')`},
		{tag: "whatever=1", err: `unknown key "whatever"`},
		{tag: "min", err: "min needs a value: min=…"},
		{tag: "min=", err: "the value of min is empty"},
		{tag: "immutable=true", err: `immutable has no value, but "true" is given`},
		{tag: "min=0,min=1", err: "min is given twice"},
		{tag: "min=0,,max=1", err: "a key is missing"},
		{tag: "min=0,", err: "a key is missing"},
		{tag: "=1", err: "a key is missing"},
		{tag: "pattern='a", err: "pattern: the closing ' is missing"},
		{tag: "pattern='a'b", err: `a comma is missing before "b"`},
		{tag: "elements.min=1", err: `"elements" is neither items nor values`},
	} {
		got, err := parseTag(c.tag)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %s", c.tag, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.tag, err)
		default:
			for i := range got {
				if len(got[i].path) == 0 {
					got[i].path = nil
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %#v", c.tag, got)
			}
		}
	}
}

// A parsed tag can be written and parsed again with the same result.
func FuzzParseTag(f *testing.F) {
	for _, seed := range []string{"min=0,max=100", "pattern='^a{1,3}$'", "rule='self == ''a''',message=no",
		"items.values.enum=a|b", "default=", "immutable,column", "default='  x '", "enum='a,''b'"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		list, err := parseTag(tag)
		if err != nil {
			return
		}
		texts := make([]string, len(list))
		for i, d := range list {
			texts[i] = d.String()
		}
		again, err := parseTag(strings.Join(texts, ","))
		if err != nil {
			t.Fatalf("%q became %q: %v", tag, texts, err)
		}
		if !reflect.DeepEqual(list, again) {
			t.Fatalf("%q became %q:\n%#v\n%#v", tag, texts, list, again)
		}
	})
}

func TestCELName(t *testing.T) {
	for name, want := range map[string]string{"a": "a", "namespace": "__namespace__", "a-b": "a__dash__b",
		"a.b": "a__dot__b", "a__b": "a__underscores__b", "a/b": "a__slash__b"} {
		if got := celName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for rule, want := range map[string]bool{"self == oldSelf": true, "self == 'oldSelf'": false,
		`self == "a\"oldSelf"`: false, "myoldSelf": false, "oldSelf.x == 'a' || self": true} {
		if usesOldSelf(rule) != want {
			t.Errorf("%s: %v", rule, !want)
		}
	}
}

type node struct {
	Next *node  `json:"next,omitempty" crd:"schemaless"`
	Port uint8  `json:"port" crd:"exclusiveMin,title=Port"`
	Name string `json:"name" crd:"notEmpty"`
	Long string `json:"long" crd:"notEmpty,minLength=3"`
}

// Everything that a marker of controller-gen says has a key.
func TestKeysOfMarkers(t *testing.T) {
	var b builder
	s := b.root(reflect.TypeFor[node]())
	for _, err := range b.errs {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"next": `{"x-kubernetes-preserve-unknown-fields":true}`,
		"port": `{"title":"Port","type":"integer","format":"int32","minimum":0,"exclusiveMinimum":true,"maximum":255}`,
		"name": `{"type":"string","minLength":1}`,
		"long": `{"type":"string","minLength":3}`,
	} {
		if got, err := json.Marshal(s.Properties[name]); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
	}
}
