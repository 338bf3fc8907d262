package jsonfields_test

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/pintle-go/pintle/internal/jsonfields"
	"github.com/pintle-go/pintle/internal/jsonfields/drawn"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// If Check accepts a type, both readers read the output of encoding/json alike.
func TestReadAsEncodingJSON(t *testing.T) {
	passed, read := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		typ := drawn.Struct(t, 2)
		if jsonfields.Check(typ) != nil {
			return
		}
		passed++
		options := jsonfields.ReadOptions(typ)
		v := reflect.New(typ)
		drawn.Fill(t, v.Elem(), 5)
		text, err := stdjson.Marshal(v.Interface())
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		want, got := reflect.New(typ), reflect.New(typ)
		if err := stdjson.Unmarshal(text, want.Interface()); err != nil {
			t.Fatalf("%s: encoding/json does not read its own %s: %v", typ, text, err)
		}
		if err := json.Unmarshal(text, got.Interface(), options); err != nil {
			t.Fatalf("%s: %s: %v", typ, text, err)
		}
		if !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Fatalf("%s: %s:\ngot  %+v\nwant %+v", typ, text, got, want)
		}
		read++
	})
	t.Logf("%d types passed, %d were read", passed, read)
}

type (
	NamedByte  byte
	WriteOnly  struct{ A int }
	WriteAlike struct {
		A int `json:"a"`
	}
	ReadOnly  struct{ A int }
	WriteTo   struct{ A int }
	ReadFrom  struct{ A int }
	Stringer  interface{ String() string }
	TextKey   struct{ a string }
	StringKey string
	Loop      struct {
		Next *Loop `json:"next,omitempty"`
		F    func()
	}
)

func (WriteOnly) MarshalJSON() ([]byte, error)    { return []byte("1"), nil }
func (w WriteAlike) MarshalJSON() ([]byte, error) { return []byte(`{"a":1}`), nil }
func (*ReadOnly) UnmarshalJSON(text []byte) error {
	if text[0] != '"' {
		return errors.New("want a string")
	}
	return nil
}
func (WriteTo) MarshalJSONTo(e *jsontext.Encoder) error      { return e.WriteToken(jsontext.Int(1)) }
func (*WriteTo) UnmarshalJSONFrom(d *jsontext.Decoder) error { return d.SkipValue() }
func (*ReadFrom) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '"' {
		return errors.New("want a string")
	}
	return d.SkipValue()
}
func (k TextKey) MarshalText() ([]byte, error)     { return []byte(k.a), nil }
func (k *TextKey) UnmarshalText(text []byte) error { k.a = string(text); return nil }
func (k *StringKey) UnmarshalText([]byte) error    { return nil }

// go-json-experiment alone reads each of these shapes differently. Each shape is read
// correctly, or is refused before it is written.
func TestShapes(t *testing.T) {
	type shapes struct {
		Array      [3]byte             `json:"array"`
		NamedArray [3]NamedByte        `json:"namedArray"`
		Named      []NamedByte         `json:"named"`
		Bytes      []byte              `json:"bytes"`
		Number     stdjson.Number      `json:"number"`
		Numbers    []stdjson.Number    `json:"numbers"`
		QuotedNum  stdjson.Number      `json:"quotedNum,string"`
		Bool       bool                `json:"bool,string"`
		Pointer    *bool               `json:"pointer,string"`
		Int        int64               `json:"int,string"`
		List       []int               `json:"list,string"`
		Map        map[string]int      `json:"map,string"`
		Dash       int                 `json:"-,"`
		Comma      int                 `json:"comma,"`
		Duration   time.Duration       `json:"duration"`
		Durations  map[string]duration `json:"durations,omitEmpty"`
		Keys       map[TextKey]int     `json:"keys"`
		Twin       int                 `json:"twin"`
		Alike      WriteAlike          `json:"alike"`
	}
	yes := true
	v := shapes{
		Array: [3]byte{1, 2}, NamedArray: [3]NamedByte{3}, Named: []NamedByte("xyz"), Bytes: []byte{0, 255}, Number: "1.50",
		Numbers: []stdjson.Number{"1", "2e3"}, QuotedNum: "7", Bool: true, Pointer: &yes, Int: 5, List: []int{1},
		Map: map[string]int{"a": 1}, Dash: 3, Comma: 4, Duration: time.Second, Durations: map[string]duration{"a": 5},
		Keys: map[TextKey]int{{"k"}: 1}, Twin: 1, Alike: WriteAlike{1},
	}
	if err := jsonfields.Check(reflect.TypeOf(v)); err != nil {
		t.Fatal(err)
	}
	text, err := stdjson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var got shapes
	if err := json.Unmarshal(text, &got, jsonfields.ReadOptions(reflect.TypeOf(v))); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, v) {
		t.Errorf("got %+v\nwant %+v", got, v)
	}
}

type duration time.Duration

// Check refuses a type that cannot be read back, with the place of the problem.
func TestCheck(t *testing.T) {
	type pkg = struct{}
	for _, c := range []struct {
		of   reflect.Type
		want string
	}{
		{reflect.TypeFor[struct{ A chan int }](), ".A: a chan int has no JSON form"},
		{reflect.TypeFor[Loop](), "jsonfields_test.Loop.F: a func() has no JSON form"},
		{reflect.TypeFor[struct{ A []Stringer }](), "the value in interface jsonfields_test.Stringer cannot be read back"},
		{reflect.TypeFor[struct{ A *WriteOnly }](),
			"jsonfields_test.WriteOnly: jsonfields_test.WriteOnly is written as 1, which cannot be read back"},
		{reflect.TypeFor[struct{ A ReadOnly }](), `is written as {"A":0}, which cannot be read back (want a string)`},
		{reflect.TypeFor[struct{ A WriteTo }](),
			"has MarshalJSONTo, which encoding/json does not call: give it MarshalJSON as well"},
		{reflect.TypeFor[struct{ A ReadFrom }](), `is written as {"A":0}, which cannot be read back`},
		{reflect.TypeFor[struct{ A map[bool]int }](), "a map with keys of type bool has no JSON form"},
		{reflect.TypeFor[struct{ A map[StringKey]int }](),
			"a map with keys of type jsonfields_test.StringKey is read differently from how it is written"},
		{reflect.TypeFor[struct{ *hiddenToo }](), "an embedded pointer to a struct that is not exported cannot be read"},
		{reflect.TypeFor[struct {
			A int `json:"a\"b"`
		}](), `encoding/json does not accept the name "a\"b"`},
		{reflect.TypeFor[struct {
			A pkg `json:"a,embed"`
		}](), "embed is for embedded structs"},
		{reflect.TypeFor[struct {
			A *string `json:"a,string"`
		}](), "the option string is not for strings"},
		{reflect.TypeFor[struct {
			A textInt `json:"a,string"`
		}](), "the option string is not for jsonfields_test.textInt, which encodes itself"},
	} {
		if err := jsonfields.Check(c.of); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.of, err, c.want)
		}
	}
	for _, fine := range []reflect.Type{
		reflect.TypeFor[appsv1.Deployment](), reflect.TypeFor[batchv1.CronJob](),
		reflect.TypeFor[struct{ Spec corev1.PodSpec }](),
		reflect.TypeFor[struct{ At time.Time }](), reflect.TypeFor[struct{ Any any }](), reflect.TypeFor[map[int]string](),
	} {
		if err := jsonfields.Check(fine); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

type textInt int

func (textInt) MarshalText() ([]byte, error)  { return []byte("x"), nil }
func (*textInt) UnmarshalText(_ []byte) error { return nil }
