package intent

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// thing is an object whose spec holds the value under test.
type thing[T any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              T `json:"spec"`
}

var thingOptions = Options{APIVersion: "v1", Kind: "Thing"}

func specOf[T any](t testing.TB, spec T) string {
	t.Helper()
	got := encode(t, &thing[T]{Spec: spec}, thingOptions)
	got, ok := strings.CutPrefix(got, `{"apiVersion":"v1","kind":"Thing","spec":`)
	if !ok {
		t.Fatalf("got %s", got)
	}
	return strings.TrimSuffix(got, "}")
}

type inner struct {
	A string            `json:"a,omitempty"`
	M map[string]string `json:"m,omitempty"`
}

type withRequired struct {
	N int      `json:"n"`
	L []string `json:"l,omitempty"`
}

// always is never zero by its own account, never always.
type always struct{ N int }

func (always) IsZero() bool { return false }

type never struct{ N int }

func (*never) IsZero() bool { return true }

// byPointer encodes itself, through a pointer only.
type byPointer struct{ text string }

func (p *byPointer) MarshalJSON() ([]byte, error) { return []byte(p.text), nil }

type textKey struct{ K string }

func (k textKey) MarshalText() ([]byte, error) { return []byte("k-" + k.K), nil }

type twin struct{ K string }

func (twin) MarshalText() ([]byte, error) { return []byte("same"), nil }

type tree struct {
	Name     string           `json:"name,omitempty"`
	Children []tree           `json:"children,omitempty"`
	Named    map[string]*tree `json:"named,omitempty"`
	Other    *tree            `json:"other,omitempty"`
	Any      any              `json:"any,omitempty"`
}

// A definition requires the lists and maps that have no option in their tag, and refuses null.
func TestCustomSendsRequiredLists(t *testing.T) {
	type list struct {
		S []int
		M map[string]int
		B []byte
		P *[]int
		I any
		O []int          `json:",omitempty"`
		Z map[string]int `json:",omitzero"`
		L []struct{ N []int }
	}
	o := thing[list]{Spec: list{L: make([]struct{ N []int }, 1)}}
	options := thingOptions
	options.Custom = true
	want := `{"apiVersion":"v1","kind":"Thing","spec":{"S":[],"M":{},"L":[{"N":[]}]}}`
	if got := encode(t, &o, options); got != want {
		t.Errorf("got %s", got)
	}
	want = `{"apiVersion":"v1","kind":"Thing","spec":{"L":[{}]}}`
	if got := encode(t, &o, thingOptions); got != want {
		t.Errorf("of a kind of Kubernetes: got %s", got)
	}
}

func TestRules(t *testing.T) {
	tests := map[string]struct{ got, want string }{
		"nil is left out without a tag": {specOf(t, struct {
			P *int
			S []int
			M map[string]int
			I any
			B []byte
		}{}), `{}`},
		"values without a tag are sent": {specOf(t, struct {
			N int
			S string
			B bool
			F float64
			T inner
			L []string
			M map[string]string
			A [2]int
			D time.Duration
		}{L: []string{}, M: map[string]string{}}), `{"N":0,"S":"","B":false,"F":0,"T":{},"L":[],"M":{},"A":[0,0],"D":0}`},
		"omitempty": {specOf(t, struct {
			N int               `json:"n,omitempty"`
			S string            `json:"s,omitempty"`
			B bool              `json:"b,omitempty"`
			F float64           `json:"f,omitempty"`
			T inner             `json:"t,omitempty"`
			L []string          `json:"l,omitempty"`
			M map[string]string `json:"m,omitempty"`
			A [2]int            `json:"a,omitempty"`
			W time.Time         `json:"w,omitempty"`
			R withRequired      `json:"r,omitempty"`
		}{L: []string{}, M: map[string]string{}, T: inner{M: map[string]string{}}, R: withRequired{L: []string{}}}), `{}`},
		"omitempty around required fields": {specOf(t, struct {
			R withRequired `json:"r,omitempty"`
		}{withRequired{L: []string{"x"}}}), `{"r":{"n":0,"l":["x"]}}`},
		"omitzero": {specOf(t, struct {
			N int               `json:"n,omitzero"`
			T inner             `json:"t,omitzero"`
			U struct{ T inner } `json:"u,omitzero"`
			L []string          `json:"l,omitzero"`
			M map[string]string `json:"m,omitzero"`
			X []string          `json:"x,omitzero"`
			A always            `json:"a,omitzero"`
			Z never             `json:"z,omitzero"`
			W metav1.Time       `json:"w,omitzero"`
		}{L: []string{}, M: map[string]string{}, T: inner{M: map[string]string{}}, Z: never{1}}),
			`{"l":[],"m":{},"a":{"N":0}}`},
		"pointers are sent whatever they point to": {specOf(t, struct {
			N *int            `json:"n,omitempty"`
			S *string         `json:"s,omitzero"`
			T *inner          `json:"t,omitempty"`
			Z *never          `json:"z,omitzero"`
			L *[]string       `json:"l,omitempty"`
			M *map[string]int `json:"m,omitempty"`
			P **int           `json:"p,omitempty"`
		}{new(int), new(string), new(inner), new(never), new([]string), new(map[string]int), ptr(new(int))}),
			`{"n":0,"s":"","t":{},"z":{"N":0},"l":[],"m":{},"p":0}`},
		"elements are never left out": {specOf(t, struct {
			L []inner            `json:"l,omitempty"`
			P []*inner           `json:"p,omitempty"`
			N [][]string         `json:"n,omitempty"`
			B [][]byte           `json:"b,omitempty"`
			M []map[string]int   `json:"m,omitempty"`
			T []metav1.Time      `json:"t,omitempty"`
			A []any              `json:"a,omitempty"`
			E map[string]inner   `json:"e,omitempty"`
			Q map[string]*inner  `json:"q,omitempty"`
			S map[string][]inner `json:"s,omitempty"`
		}{
			[]inner{{}}, []*inner{nil, {}}, [][]string{nil}, [][]byte{nil}, []map[string]int{nil}, []metav1.Time{{}},
			[]any{nil, 0, map[string]any(nil)}, map[string]inner{"x": {}}, map[string]*inner{"x": nil, "y": {}},
			map[string][]inner{"x": nil},
		}), `{"l":[{}],"p":[null,{}],"n":[[]],"b":[""],"m":[{}],"t":[null],"a":[null,0,null],"e":{"x":{}},"q":{"y":{}},"s":{"x":[]}}`},
		"nulls that were meant are kept": {specOf(t, struct {
			R runtime.RawExtension  `json:"r,omitempty"`
			P *runtime.RawExtension `json:"p,omitempty"`
			J json.RawMessage       `json:"j,omitempty"`
			A any                   `json:"a,omitempty"`
			M map[string]any        `json:"m"`
		}{
			runtime.RawExtension{
				Raw: []byte("null"),
			},
			&runtime.RawExtension{Raw: []byte(`{ "x": [null] }`)},
			json.RawMessage("null"),
			map[string]any{"b": nil, "a": []any{nil}},
			map[string]any{"n": nil},
		}), `{"r":null,"p":{"x":[null]},"j":null,"a":{"a":[null],"b":null},"m":{"n":null}}`},
		"nulls that stand for nothing are not": {specOf(t, struct {
			T metav1.Time           `json:"t"`
			P *metav1.Time          `json:"p"`
			L metav1.Time           `json:"l,omitempty"`
			M metav1.MicroTime      `json:"m"`
			R runtime.RawExtension  `json:"r"`
			Q *runtime.RawExtension `json:"q"`
		}{P: new(metav1.Time), L: metav1.Time{Time: time.Time{}.In(time.FixedZone("x",
			60))}, Q: new(runtime.RawExtension)}), `{}`},
		"types that encode themselves": {specOf(t, struct {
			T metav1.Time
			D metav1.Duration
			I intstr.IntOrString
			Z intstr.IntOrString `json:"Z,omitempty"`
			P byPointer
			L []byPointer
			M map[string]byPointer
			A any
			B any
			N json.Number
			O json.Number
		}{
			T: metav1.Unix(0, 0), D: metav1.Duration{Duration: time.Second}, P: byPointer{" 1 "}, L: []byPointer{{"2"}},
			M: map[string]byPointer{"x": {`"\u0041"`}}, A: byPointer{"[4]"}, B: &byPointer{"5"}, N: "1.50e3",
		}), `{"T":"1970-01-01T00:00:00Z","D":"1s","I":0,"P":1,"L":[2],"M":{"x":"\u0041"},"A":[4],"B":5,"N":1.50e3,"O":0}`},
		"maps": {specOf(t, struct {
			I map[int]string
			U map[uint8]bool
			T map[textKey]int
			N map[string]map[string]int
		}{map[int]string{10: "a", -1: "b", 9: "c"}, map[uint8]bool{7: true}, map[textKey]int{{"b"}: 1,
			{"a"}: 2}, map[string]map[string]int{"b": {"y": 1, "x": 2}, "a": {"z": 3}}}),
			`{"I":{"-1":"b","10":"a","9":"c"},"U":{"7":true},"T":{"k-a":2,"k-b":1},"N":{"a":{"z":3},"b":{"x":2,"y":1}}}`},
		"string option": {specOf(t, struct {
			N int      `json:",string"`
			S string   `json:",string"`
			B *bool    `json:",string,omitempty"`
			F float64  `json:",string"`
			L []string `json:",string"` //nolint:staticcheck // that it means nothing here is the test
		}{S: `a"`, B: new(bool), L: []string{"x"}}), `{"N":"0","S":"\"a\\\"\"","B":"false","F":"0","L":["x"]}`},
		"names": {specOf(t, struct {
			A int `json:"-"`
			B int `json:"-,"` //nolint:staticcheck // the name is a dash
			C int `json:"a/b.c"`
			D int `json:"a\"b"` //nolint:staticcheck // no such name may be given
			E int `json:",inline"`
			F int `json:"ключ"`
			g int
		}{}), `{"-":0,"a/b.c":0,"D":0,"E":0,"ключ":0}`},
		"floats": {specOf(t, []float64{1, 1.5, 1e21, 1e-7, 1e20, -0.000001, math.MaxFloat64}),
			`[1,1.5,1e+21,1e-7,100000000000000000000,-0.000001,1.7976931348623157e+308]`},
		"recursive types": {specOf(t, tree{Name: "r", Children: []tree{{}, {Name: "c"}},
			Named: map[string]*tree{"n": {Other: &tree{}}}, Any: tree{Name: "a"}}),
			`{"name":"r","children":[{},{"name":"c"}],"named":{"n":{"other":{}}},"any":{"name":"a"}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got  %s\nwant %s", tt.got, tt.want)
			}
		})
	}
}

type (
	base   struct{ X, Y, base int }
	Left   struct{ X, L int }
	Right  struct{ X, R int }
	Tagged struct {
		Q int `json:"X"`
	}
	Deep  struct{ Right }
	Loop  struct{ *Loop }
	hid   int
	Inner struct {
		X int `json:"x,omitempty"`
	}
)

// Fields without special tags are encoded as by encoding/json, with embedding and its
// conflicts.
func TestSameAsEncodingJSON(t *testing.T) {
	x := 1
	for _, spec := range []any{
		struct{ base }{base{1, 2, 3}},
		struct{ *Left }{&Left{1, 2}},
		struct{ *Left }{},
		struct {
			Left
			Right
		}{Left{1, 2}, Right{3, 4}},
		struct {
			Left
			X int
		}{Left{1, 2}, 3},
		struct {
			Left
			Tagged
		}{Left{1, 2}, Tagged{3}},
		struct {
			Left
			Deep
		}{Left{1, 2}, Deep{Right{3, 4}}},
		struct {
			Left `json:"left"`
			Deep
		}{Left{1, 2}, Deep{Right{3, 4}}},
		struct {
			Left `json:"-"`
			Deep `json:",omitempty"`
		}{Left{1, 2}, Deep{Right{3, 4}}},
		Loop{&Loop{}},
		struct {
			hid
			Inner
		}{1, Inner{2}},
		struct{ time.Time }{time.Unix(0, 0).UTC()},
		struct {
			A, B any
			C    *int
			D    map[string]any
			E    [3]uint8
			F    []uint8
			G    float32
			H    **int
			I    uint64
			J    []any
			K    string
		}{1, "x", &x, map[string]any{"b": 1.5, "a": []string{"y"}, "c": map[int]bool{3: true}}, [3]uint8{1}, []uint8{1,
			2}, 1e-7, ptr(&x), math.MaxUint64, []any{nil, 1e21}, "a\t\u007f\u00e9\U0001f600\\"},
	} {
		want, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		e, err := For(reflect.TypeFor[thing[any]]())
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Object(nil, &thing[any]{Spec: spec}, thingOptions)
		if w := `{"apiVersion":"v1","kind":"Thing","spec":` + string(want) + `}`; err != nil || string(got) != w {
			t.Errorf("%T: got %s, %v, want %s", spec, got, err, w)
		}
	}
}

// self is a value that contains itself.
type self struct {
	Next *self          `json:"next,omitempty"`
	Any  map[string]any `json:"any,omitempty"`
}

func TestErrors(t *testing.T) {
	ring := &self{}
	ring.Next = ring
	snake := map[string]any{}
	snake["tail"] = snake
	errBroken := errors.New("is broken")
	tests := map[string]struct {
		object any
		opt    Options
		want   string
	}{
		"invalid UTF-8": {
			&thing[struct {
				L []map[string]string `json:"l"`
			}]{Spec: struct {
				L []map[string]string `json:"l"`
			}{[]map[string]string{nil, {"k.x/y": "\xff"}}}},
			thingOptions, `encode Thing: spec.l[1]["k.x/y"]: is not valid UTF-8`,
		},
		"invalid key": {&thing[map[string]int]{Spec: map[string]int{"\xff": 1}}, thingOptions,
			`encode Thing: spec["\xff"]: is not valid UTF-8`},
		"twin keys": {&thing[map[twin]int]{Spec: map[twin]int{{"a"}: 1, {"b"}: 2}}, thingOptions,
			`encode Thing: spec["same"]: two keys`},
		"not a number": {&thing[[]float64]{Spec: []float64{math.NaN()}}, thingOptions,
			`encode Thing: spec[0]: NaN has no JSON form`},
		"json.Number": {&thing[json.Number]{Spec: "1 "}, thingOptions, `encode Thing: spec: "1 " is not a JSON number`},
		"ring":        {&thing[*self]{Spec: ring}, thingOptions, `nested too deep`},
		"snake":       {&thing[self]{Spec: self{Any: snake}}, thingOptions, `nested too deep`},
		"func in any": {&thing[any]{Spec: func() {}}, thingOptions, `encode Thing: spec: a func() has no JSON form`},
		"bad marshaler": {&thing[byPointer]{Spec: byPointer{`{"a":1,"a":2}`}}, thingOptions,
			`encode Thing: spec: MarshalJSON of intent.byPointer: `},
		"own error": {&thing[failing]{Spec: failing{errBroken}}, thingOptions, `encode Thing: spec: is broken`},
		"no kind":   {&thing[int]{}, Options{APIVersion: "v1"}, `apiVersion and kind are not given`},
		"no status": {&thing[int]{}, Options{APIVersion: "v1", Kind: "Thing", Part: Status},
			`encode Thing: the type has no status`},
		"nil status": {&withStatus{}, Options{APIVersion: "v1", Kind: "Thing", Part: Status},
			`encode Thing: status: is nil`},
		"no object":    {(*thing[int])(nil), thingOptions, `encode Thing: the object is nil`},
		"unknown part": {&thing[int]{}, Options{APIVersion: "v1", Kind: "Thing", Part: 9}, `no such part`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, err := For(reflect.TypeOf(tt.object))
			if err != nil {
				t.Fatal(err)
			}
			out, err := e.Object(nil, tt.object, tt.opt)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %.200s, %.300v, want error %q", out, err, tt.want)
			}
			if name == "own error" && !errors.Is(err, errBroken) {
				t.Error("does not wrap the cause")
			}
		})
	}
}

type failing struct{ err error }

func (f failing) MarshalJSON() ([]byte, error) { return nil, f.err }

type withStatus struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            *inner `json:"status"`
}

func TestForRefuses(t *testing.T) {
	for want, typ := range map[string]reflect.Type{
		"spec.F: a func() has no JSON form":                      reflect.TypeFor[thing[struct{ F func() }]](),
		"spec: a map with keys of type bool has no JSON form":    reflect.TypeFor[thing[map[bool]int]](),
		"build encoder of chan int: a chan int has no JSON form": reflect.TypeFor[chan int](),
		"spec: a complex128 has no JSON form":                    reflect.TypeFor[*thing[[]complex128]](),
	} {
		if _, err := For(typ); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := For(nil); err == nil {
		t.Error("no error without a type")
	}
	e, err := For(reflect.TypeFor[thing[int]]())
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []any{nil, 3, &thing[string]{}, ptr(&thing[int]{})} {
		if _, err := e.Object(nil, wrong, thingOptions); err == nil {
			t.Errorf("no error for %T", wrong)
		}
	}
}

// partialMeta are kinds of metadata other than ObjectMeta.
func TestOtherMetadata(t *testing.T) {
	type small struct {
		Name       string   `json:"name"`
		Generation int      `json:"generation"`
		Finalizers []string `json:"finalizers"`
	}
	free := map[string]any{"name": "x", "finalizers": []string{"f"}, "labels": nil}
	for want, object := range map[string]any{
		`"metadata":{"name":"x"}`: &struct {
			M *small `json:"metadata"`
		}{&small{"x", 1, []string{"f"}}},
		`"metadata":{"labels":null,"name":"x"}`: &struct {
			M map[string]any `json:"metadata"`
		}{free},
		`"metadata":{"name":"y"}`: &struct {
			M any `json:"metadata"`
		}{small{"y", 1, nil}},
		`"spec":1`: &struct {
			M *small `json:"metadata"`
			S int    `json:"spec"`
		}{S: 1},
	} {
		if got := encode(t, object, thingOptions); got != `{"apiVersion":"v1","kind":"Thing",`+want+`}` {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
