package crd_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Case is a kind with a spec for one test.
type Case[S any] struct {
	kube.Object
	Spec S `json:"spec"`
}

func (Case[S]) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Case"} }

func wrong[S any]() error { return wrongWith[S](crd.Options{}) }

func wrongWith[S any](o crd.Options) error {
	return crd.Of[Case[S]](o).Err()
}

type Tree struct {
	Left  *Tree  `json:"left,omitempty"`
	Value string `json:"value"`
}

type Key string

func (*Key) UnmarshalText([]byte) error { return nil }

type Ring struct {
	Next []Link `json:"next,omitempty"`
}

type Link struct {
	Rings map[string]Ring `json:"rings,omitempty"`
}

type Own struct{ X int }

func (Own) MarshalJSON() ([]byte, error) { return []byte("1"), nil }
func (*Own) UnmarshalJSON([]byte) error  { return nil }

// WriteOnly has a JSON form that it cannot be decoded from.
type WriteOnly struct{ X int }

func (WriteOnly) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// The error of a wrong tag names type, field and tag.
func TestWrong(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{wrong[struct {
			A int `json:"a" crd:"mni=0"`
		}](), `crd_test.Case.Spec.A, crd:"mni=0": unknown key "mni": did you mean min?`},
		{wrong[struct {
			A string `json:"a" crd:"min=1"`
		}](), `crd_test.Case.Spec.A, crd:"min=1": min=1: it is for integer, number, int-or-string, this is string`},
		{wrong[struct {
			A int `json:"a" crd:"maxLength=1"`
		}](), `maxLength=1: it is for string, int-or-string, this is integer`},
		{wrong[struct {
			A []string `json:"a" crd:"pattern=a"`
		}](), `pattern=a: it is for string, int-or-string, this is array`},
		{wrong[struct {
			A string `json:"a" crd:"items.min=1"`
		}](), `items.min=1: string has no items`},
		{wrong[struct {
			A []int `json:"a" crd:"values.min=1"`
		}](), `values.min=1: array has no values`},
		{wrong[struct {
			A int `json:"a" crd:"min=x"`
		}](), `min=x: it is not a number`},
		{wrong[struct {
			A int `json:"a" crd:"min=1.5"`
		}](), `min=1.5: an integer's must be an integer`},
		{wrong[struct {
			A int `json:"a" crd:"min=3,max=2"`
		}](), `the minimum 3 is above the maximum 2`},
		{wrong[struct {
			A string `json:"a" crd:"minLength=3,maxLength=2"`
		}](), `minLength 3 is above maxLength 2`},
		{wrong[struct {
			A string `json:"a" crd:"minLength=-1"`
		}](), `minLength=-1: it is not a number of 0 or more`},
		{wrong[struct {
			A int `json:"a" crd:"multipleOf=0"`
		}](), `it must be above 0`},
		{wrong[struct {
			A string `json:"a" crd:"pattern=("`
		}](), "error parsing regexp: missing closing )"},
		{wrong[struct {
			A string `json:"a" crd:"format=emial"`
		}](), `format=emial: servers do not know this format: did you mean email?`},
		{wrong[struct {
			A int `json:"a" crd:"enum=1|two"`
		}](), `enum=1|two: "two" is not a valid integer`},
		{wrong[struct {
			A string `json:"a" crd:"enum=a|a"`
		}](), `"a" is given twice`},
		{wrong[struct {
			A string `json:"a" crd:"maxLength=1,enum=a|bb"`
		}](), `enum: "bb": it must have at most 1 characters`},
		{wrong[struct {
			A string `json:"a" crd:"enum='[\"a\",1]'"`
		}](), `enum: 1: it must be string, not integer`},
		{wrong[struct {
			A int `json:"a" crd:"default=x"`
		}](), `default=x: "x" is not a valid integer`},
		{wrong[struct {
			A bool `json:"a" crd:"default=yes"`
		}](), `default=yes: "yes" is not a valid boolean`},
		{wrong[struct {
			A int `json:"a" crd:"default=5,max=4"`
		}](), `default: 5: 5 is above the maximum 4`},
		{wrong[struct {
			A string `json:"a" crd:"default=c,enum=a|b"`
		}](), `default: "c": it must be one of "a", "b"`},
		{wrong[struct {
			A string `json:"a" crd:"default=B,pattern=^[a-z]$"`
		}](), `"B" does not match ^[a-z]$`},
		{wrong[struct {
			A []string `json:"a" crd:"default='[\"a\"'"`
		}](), `is not JSON`},
		{wrong[struct {
			A []string `json:"a" crd:"default=[1]"`
		}](), `default: [1]: [0]: it must be string, not integer`},
		{wrong[struct {
			A Window `json:"a" crd:"default='{\"min\":1}'"`
		}](), `default: {"min":1}: max is required`},
		{wrong[struct {
			A Window `json:"a" crd:"default='{\"min\":1,\"max\":1,\"mid\":1}'"`
		}](), `there is no field .mid`},
		{wrong[struct {
			A *metav1.Time `json:"a,omitempty" crd:"default=now"`
		}](), `"now" is not a valid date-time`},
		{wrong[struct {
			A []int `json:"a" crd:"items.default=1"`
		}](), `elements have no default`},
		{wrong[struct {
			A []Named `json:"a" crd:"listMapKey=nume"`
		}](), `the elements have no field nume for a map key: did you mean name?`},
		{wrong[struct {
			A []Named `json:"a" crd:"listMapKey=value"`
		}](), `map key value must be required or have a default`},
		{wrong[struct {
			A []Named `json:"a" crd:"listType=map"`
		}](), `a list that is a map needs listMapKey`},
		{wrong[struct {
			A []string `json:"a" crd:"listMapKey=name"`
		}](), `only a list of structs can be a map`},
		{wrong[struct {
			A []struct {
				K []string `json:"k"`
			} `json:"a" crd:"listMapKey=k"`
		}](), `map key k is array: it must be a scalar`},
		{wrong[struct {
			A []Named `json:"a" crd:"listType=set"`
		}](), `the structs in a set must be atomic: add items.mapType=atomic`},
		{wrong[struct {
			A string `json:"a" crd:"listType=set"`
		}](), `it is for array, this is string`},
		{wrong[struct {
			A []string `json:"a" crd:"listType=list"`
		}](), `want atomic, set or map`},
		{wrong[struct {
			A string `json:"a" crd:"message=no"`
		}](), `message=no: it must follow a rule`},
		{wrong[struct {
			A string `json:"a" crd:"rule=true,message=a,message=b"`
		}](), `message=b: its rule has one already`},
		{wrong[struct {
			A int `json:"a" crd:"exclusiveMin"`
		}](), `exclusiveMin: there is no limit that it could make exclusive`},
		{wrong[struct {
			A int `json:"a" crd:"max=9007199254740993"`
		}](), `max=9007199254740993: servers would read it as 9007199254740992`},
		{wrong[struct {
			A []bool `json:"a" crd:"items.notEmpty"`
		}](), `items.notEmpty: it is for string, array, object, this is boolean`},
		{wrong[struct {
			A string `json:"a" crd:"rule=self != '',reason=Because"`
		}](), `reason=Because: want one of FieldValueInvalid`},
		{wrong[struct {
			A string `json:"$ref,omitempty" crd:"immutable"`
		}](), `Spec.A, crd:"immutable": immutable: CEL cannot name the optional field`},
		{wrong[struct {
			A any `json:"a" crd:"immutable"`
		}](), `a value of any type can have no rule`},
		{wrong[struct {
			A []struct {
				B string `json:"b" crd:"immutable"`
			} `json:"a"`
		}](), `crd_test.Case.Spec.A.B, crd:"immutable": oldSelf is not defined in a list`},
		{wrong[struct {
			A []struct {
				B string `json:"b" crd:"column"`
			} `json:"a"`
		}](), `a field in a list or map cannot have a column`},
		{wrong[struct {
			A []string `json:"a" crd:"column"`
		}](), `column: array does not fit into a column: add columnPath, or columnType=string`},
		{wrong[struct {
			A []Named `json:"a" crd:"column=B,columnPath=[0].nume"`
		}](), `there is no field nume: did you mean name?`},
		{wrong[struct {
			A []Named `json:"a" crd:"column=B,columnPath=[0"`
		}](), `the closing ] is missing`},
		{wrong[struct {
			A []Named `json:"a" crd:"column=B,columnPath=[first].name"`
		}](), `[first] is neither an index, a range nor a filter`},
		{wrong[struct {
			A string `json:"a" crd:"columnType=string"`
		}](), `column is missing`},
		{wrong[struct {
			A string `json:"a" crd:"column,columnType=text"`
		}](), `want one of integer, number, string, boolean, date`},
		{wrongWith[struct {
			A string `json:"a" crd:"column=X"`
		}](crd.Options{Columns: []crd.Column{{Name: "X", Type: "string", JSONPath: ".spec.a"}}}),
			`column X: there are two of this name for the same field`},
		{wrong[struct {
			A float64 `json:"a" crd:"selectable"`
		}](), `selectable: it is for string, integer, boolean, this is number`},
		{wrong[struct {
			A map[string]struct {
				B string `json:"b" crd:"selectable"`
			} `json:"a"`
		}](), `a field in a list or map cannot be selected`},
		{wrong[struct {
			_ struct{} `crd:"min=1"`
			A string   `json:"a"`
		}](), `crd_test.Case.Spec._, crd:"min=1": min=1: it does not apply to a struct as a whole`},
		{wrong[struct {
			A string `json:"-" crd:"minLength=1"`
		}](), `the field is left out of the JSON`},
		{wrong[struct {
			A string `json:"a" crd:"enum=a;b"`
		}](), `Spec.A, crd:"enum=a;b": enum=a;b: separate its values with bars, as in enum=a|b`},
		{wrong[struct {
			A runtime.Object `json:"a"`
		}](), `crd_test.Case.Spec.A: the type of the value in interface runtime.Object is not known`},
		{wrong[struct {
			A WriteOnly `json:"a" crd:"type=integer"`
		}](), `crd_test.WriteOnly: crd_test.WriteOnly is written as 1, which cannot be read back`},
		{wrong[struct {
			A string `json:"a,string"`
		}](), `Spec.A: json:"a,string": the option string is not for strings`},
		{wrong[struct {
			A int `json:"→"`
		}](), `the field has no name in JSON`},
		{wrong[struct {
			A map[Key]int `json:"a"`
		}](), `a map with keys of type crd_test.Key is read differently from how it is written`},
		{wrong[struct {
			Inlined `crd:"minProperties=1"`
		}](), "the field is embedded: tag a blank field"},
		{wrong[struct {
			A string `json:"a" crd:"type=integer"`
		}](), `type=integer: the type of string is already known`},
		{wrong[struct {
			A Own `json:"a" crd:"type=int"`
		}](), `type=int: want string, integer`},
		{wrong[struct{ Abc string }](),
			`crd_test.Case.Spec.Abc, json:"": the field has no name in JSON: give it one, as in json:"abc"`},
		{wrong[struct {
			A Inlined `json:",inline"`
		}](), `inline is for embedded structs`},

		{wrong[Tree](), `crd_test.Tree.Left: the type contains itself (crd_test.Tree → crd_test.Tree)`},
		{wrong[Ring](), `crd_test.Link.Rings: the type contains itself (crd_test.Ring → crd_test.Link → crd_test.Ring)`},
		{wrong[struct {
			A time.Duration `json:"a"`
		}](), `crd_test.Case.Spec.A: time.Duration is encoded as a number of nanoseconds: use metav1.Duration`},
		{wrong[struct {
			A []*time.Duration `json:"a"`
		}](), `use metav1.Duration`},
		{wrong[struct {
			A Own `json:"a"`
		}](), `crd_test.Own encodes itself: name its JSON type with crd:"type=string"`},
		{wrong[struct {
			A *big.Int `json:"a"`
		}](), `big.Int encodes itself`},
		{wrong[struct {
			A map[int]string `json:"a"`
		}](), `the keys of map[int]string must be strings`},
		{wrong[struct {
			A chan int `json:"a"`
		}](), `chan int has no JSON form`},
		{wrong[struct {
			A interface{ M() } `json:"a"`
		}](), `the type of the value in interface interface { M() } is not known`},

		{wrongWith[struct{}](crd.Options{Scale: &crd.Scale{}}),
			`scale: JSONPath .spec.replicas: after ".spec": object has no field replicas`},
		{wrongWith[struct {
			Replicas string `json:"replicas"`
		}](crd.Options{Scale: &crd.Scale{}}), `.spec.replicas is of type string: want integer`},
		{wrongWith[struct{}](crd.Options{Columns: []crd.Column{{Name: "A", Type: "string", JSONPath: ".spce.a"}}}),
			`column A: JSONPath .spce.a: after "": there is no field spce: did you mean spec?`},
		{wrongWith[struct{}](crd.Options{Columns: []crd.Column{{Name: "A", Type: "string", JSONPath: "spec"}}}),
			`must begin with a dot`},
		{wrongWith[struct{}](crd.Options{ShortNames: []string{"Case"}}), `short name "Case": a DNS-1035 label`},
		{wrongWith[struct{}](crd.Options{Kind: kube.Kind{GVK: kube.GVK{Group: "example", Version: "v1", Kind: "Case"}}}),
			`group "example": it must be a domain of yours`},
		{wrongWith[struct{}](crd.Options{Source: fstest.MapFS{"x.go": {Data: []byte("package \"")}}}),
			`read comments: x.go:1`},
		{crd.Of[kube.Object](crd.Options{}).Err(),
			`Go type kube.Object does not name its kind`},
		{crd.Of[corev1.Pod](crd.Options{}).Err(), `group ""`},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", c.err, c.want)
		}
	}
}

// Keys may write themselves as text, a required field of any name may be immutable, and a struct that is
// left out may have its defaults.
func TestRight(t *testing.T) {
	if err := wrong[struct {
		A map[netip.Addr]string `json:"a"`
		B string                `json:"$ref" crd:"immutable"`
		C struct {
			D int32 `json:"d,omitempty" crd:"default=80"`
		} `json:"c,omitzero" crd:"default={}"`
	}](); err != nil {
		t.Error(err)
	}
}

// One error contains all wrong fields, and each of them can be inspected.
func TestFieldErrors(t *testing.T) {
	err := wrong[struct {
		A int    `json:"a" crd:"mni=0"`
		B string `json:"b" crd:"min=0,pattern=("`
	}]()
	if n := strings.Count(err.Error(), "crd_test.Case.Spec."); n != 3 {
		t.Errorf("%d errors: %v", n, err)
	}
	if want := `crd_test.Case.Spec.A, crd:"mni=0": `; !strings.Contains(err.Error(), want) {
		t.Errorf("%v lacks %s", err, want)
	}
}

type Self int

func (Self) OpenAPISchemaType() []string  { return []string{"string"} }
func (Self) OpenAPISchemaFormat() string  { return "date" }
func (Self) MarshalJSON() ([]byte, error) { return []byte(`"2026-01-01"`), nil }
func (*Self) UnmarshalJSON([]byte) error  { return nil }

type hidden struct {
	FromHidden string `json:"fromHidden"`
}

type letter byte

type Deep struct {
	Over string `json:"over"`
}

// TestShapes compares the schemas of Go types of many shapes.
func TestShapes(t *testing.T) {
	type shapes struct {
		hidden
		*Inlined
		Deep
		Over     int    `json:"over,omitempty"`
		Skipped  string `json:"-"`
		private  string
		Pointer  **string                      `json:"pointer,omitempty"`
		Number   json.Number                   `json:"number,omitempty"`
		Self     Self                          `json:"self,omitempty"`
		Own      Own                           `json:"own,omitzero" crd:"type=integer,min=1"`
		OwnList  []Own                         `json:"ownList,omitempty" crd:"items.type=string"`
		AnyMap   map[string]any                `json:"anyMap,omitempty"`
		Maps     map[string]map[string]Celsius `json:"maps,omitempty" crd:"values.values.minLength=1"`
		Raw      runtime.RawExtension          `json:"raw,omitzero"`
		Letters  []letter                      `json:"letters,omitempty"`
		Quoted   bool                          `json:"quoted,string"`
		Dash     int                           `json:"-,"`
		Std      time.Time                     `json:"std,omitzero"`
		Bytes    [2]byte                       `json:"bytes,omitzero"`
		Optional string                        `json:"optional" crd:"optional"`
		Old      string                        `json:"old,omitempty" crd:"description=It was.,deprecated=use new"`
		Empty    struct{}                      `json:"empty,omitzero"`
	}
	d := crd.Of[Case[shapes]](crd.Options{})
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	_ = shapes{}.private
	got, err := json.Marshal(d.Version("v1").Schema.OpenAPIV3Schema.Properties["spec"])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","required":["fromHidden","quoted","-"],"properties":{
		"anyMap":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
		"bytes":{"type":"array","minItems":2,"maxItems":2,
			"items":{"type":"integer","format":"int32","minimum":0,"maximum":255}},
		"empty":{"type":"object"},
		"fromEmbedded":{"type":"string","maxLength":3},
		"fromHidden":{"type":"string"},
		"maps":{"type":"object",
			"additionalProperties":{"type":"object","additionalProperties":{"type":"string","minLength":1}}},
		"number":{"type":"number"},
		"old":{"description":"It was.\n\nDeprecated: use new","type":"string"},
		"optional":{"type":"string"},
		"over":{"type":"integer","format":"int64"},
		"own":{"type":"integer","minimum":1},
		"ownList":{"type":"array","items":{"type":"string"}},
		"pointer":{"type":"string"},
		"-":{"type":"integer","format":"int64"},
		"letters":{"type":"string","format":"byte"},
		"quoted":{"type":"string","allOf":[{"pattern":"^(true|false)$"}]},
		"raw":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
		"self":{"type":"string","format":"date"},
		"std":{"type":"string","format":"date-time","allOf":[{"pattern":` + strconv.Quote(
		`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`) + `}]}}}`
	var a, b any
	if err := errors.Join(json.Unmarshal(got, &a), json.Unmarshal([]byte(want), &b)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("got %s", got)
	}
}

// Join joins versions. The first one is stored.
func TestJoin(t *testing.T) {
	version := func(name string, o crd.Options) *crd.Definition {
		o.Kind = kube.Kind{GVK: kube.GVK{Group: "example.com", Version: name, Kind: "Case"}}
		d := crd.Of[Case[Named]](o)
		if err := d.Err(); err != nil {
			t.Fatal(err)
		}
		return d
	}
	joined := crd.Join(version("v1", crd.Options{ShortNames: []string{"c"}}),
		version("v1beta1", crd.Options{Deprecated: "use v1"}), version("v1alpha1", crd.Options{NotServed: true}))
	if err := joined.Err(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]crd.Version{
		"v1":       {Served: true, Storage: true},
		"v1beta1":  {Served: true, Deprecated: true, DeprecationWarning: "use v1"},
		"v1alpha1": {},
	} {
		v := *joined.Version(name)
		v.Name, v.Schema = "", crd.Validation{}
		if !reflect.DeepEqual(v, want) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if crd.Join(version("v1", crd.Options{}), version("v1", crd.Options{})).Err() == nil {
		t.Error("one version was joined twice")
	}
	other := crd.Of[Echo](crd.Options{})
	if err := other.Err(); err != nil {
		t.Fatal(err)
	}
	if crd.Join(version("v1", crd.Options{}), other).Err() == nil {
		t.Error("two kinds were joined")
	}
	s := start(t)
	joined.Spec.Group = s.group()
	joined.Name = "cases." + s.group()
	s.install(t, joined)
}
