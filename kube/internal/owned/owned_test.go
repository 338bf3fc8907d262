package owned

import (
	"strings"
	"testing"
)

const set = `{
	"f:metadata":{"f:labels":{".":{},"f:app":{}}},
	"f:spec":{
		"f:replicas":{},
		"f:strategy":{},
		"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:targetPort":{}}},
		"f:env":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}},"k:{\"name\":\"b\"}":{".":{},"f:name":{}}},
		"f:finalizers":{"v:\"a\"":{}},
		"f:args":{"i:1":{}}
	}
}`

const object = `{
	"metadata":{"name":"x","resourceVersion":"7","labels":{"app":"web","other":"1"}},
	"spec":{
		"replicas":3,"paused":true,"strategy":{"type":"Recreate","by":9007199254740993},
		"ports":[{"port":443,"protocol":"TCP"},{"port":80,"protocol":"TCP","targetPort":8080,"nodePort":30000}],
		"env":[{"name":"x"},{"name":"b"},{"name":"y"},{"name":"a"}],
		"finalizers":["b","a"],"args":["-a","-b"]
	},
	"status":{"ready":1}
}`

func TestDigest(t *testing.T) {
	fields, err := Parse([]byte(set))
	if err != nil {
		t.Fatal(err)
	}
	of := func(object string) Digest {
		t.Helper()
		d, err := fields.Of([]byte(object))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	is := of(object)
	for _, tc := range []struct {
		name, old, new string
		same           bool
	}{
		{"another version", `"resourceVersion":"7"`, `"resourceVersion":"8"`, true},
		{"status", `"ready":1`, `"ready":2`, true},
		{"another label", `"other":"1"`, `"other":"2"`, true},
		{"a label more", `"other":"1"`, `"other":"1","third":"3"`, true},
		{"a field that others own", `"paused":true`, `"paused":false`, true},
		{"a field of an item that others own", `"nodePort":30000`, `"nodePort":30001`, true},
		{"an item that others own", `{"port":443,"protocol":"TCP"},`, ``, true},
		{"another place", `["b","a"]`, `["a","b"]`, true},
		{"another order beside items of others", `{"name":"x"},{"name":"b"}`, `{"name":"b"},{"name":"x"}`, true},
		{"another order of own items", `{"name":"b"},{"name":"y"},{"name":"a"}`,
			`{"name":"a"},{"name":"y"},{"name":"b"}`, false},
		{"the label", `"app":"web"`, `"app":"db"`, false},
		{"no label", `"app":"web",`, ``, false},
		{"no labels", `"labels":{"app":"web","other":"1"}`, `"labels":null`, false},
		{"the number", `"replicas":3`, `"replicas":4`, false},
		{"no number", `"replicas":3,`, ``, false},
		{"something within a whole", `"type":"Recreate"`, `"type":"RollingUpdate"`, false},
		{"a number above 2^53", `9007199254740993`, `9007199254740992`, false},
		{"something more within a whole", `"type":"Recreate"`, `"type":"Recreate","x":{}`, false},
		{"the item's field", `"targetPort":8080`, `"targetPort":8081`, false},
		{"no item", `"port":80,`, `"port":81,`, false},
		{"no element of the set", `["b","a"]`, `["b"]`, false},
		{"the item at a place", `["-a","-b"]`, `["-a","-c"]`, false},
		{"no item at a place", `["-a","-b"]`, `["-a"]`, false},
		{"another type", `["-a","-b"]`, `"-b"`, false},
		{"nothing", object, `{}`, false},
	} {
		changed := strings.Replace(object, tc.old, tc.new, 1)
		if changed == object {
			t.Fatalf("%s: nothing is replaced", tc.name)
		}
		if missing := strings.HasPrefix(tc.name, "no") || tc.name == "another type"; of(changed).Whole == missing {
			t.Errorf("%s: it is whole: %t", tc.name, !missing)
		}
		if same := of(changed) == is; same != tc.same {
			t.Errorf("%s: the same is %t, want %t", tc.name, same, tc.same)
		}
	}
}

func TestMalformed(t *testing.T) {
	for _, raw := range []string{``, `[]`, `1`, `{"f:a":1}`, `{"x:a":{}}`, `{"a":{}}`, `{"k:{":{}}`, `{"v:":{}}`,
		`{"i:a":{}}`, `{"k:{}":{}}`, `{"k:[]":{}}`} {
		fields, err := Parse([]byte(raw))
		if err == nil {
			_, err = fields.Of([]byte(`{"a":[1]}`))
		}
		if err == nil {
			t.Errorf("%q is taken for a set of fields", raw)
		}
	}
	fields, err := Parse([]byte(`{"f:a":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fields.Of([]byte(`{"a":`)); err == nil {
		t.Error("an object that is cut off is taken for one")
	}
}

// Both sides may escape the content of a string, each in its own way.
func TestEscapes(t *testing.T) {
	fields, err := Parse([]byte(`{"f:l":{"v:\"a<b\"":{},"k:{\"n\":\"\\u003c\"}":{".":{},"f:n":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	d, err := fields.Of([]byte(`{"l":["a\u003cb",{"n":"<"}]}`))
	if err != nil || !d.Whole {
		t.Errorf("not all fields are found: %v", err)
	}
}

func FuzzDigest(f *testing.F) {
	f.Add(set, object)
	f.Add(`{"i:-1":{},"k:{\"a\":[1]}":{}}`, `[{"a":[1]}]`)
	f.Fuzz(func(t *testing.T, set, object string) {
		fields, err := Parse([]byte(set))
		if err != nil {
			return
		}
		a, err := fields.Of([]byte(object))
		b, again := fields.Of([]byte(object))
		if a != b || (err == nil) != (again == nil) {
			t.Fatal("one object has two digests")
		}
	})
}
