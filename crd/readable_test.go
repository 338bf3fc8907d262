package crd

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// readable are types whose JSON has a narrower form than a JSON type or a format has.
var readable = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[time.Time](),
	reflect.TypeFor[metav1.Duration](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](),
	reflect.TypeFor[*metav1.MicroTime](), reflect.TypeFor[[]metav1.Duration](),
	reflect.TypeFor[map[string]intstr.IntOrString](),
	reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
	reflect.TypeFor[int](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[bool](), reflect.TypeFor[json.Number](),
	reflect.TypeFor[[]byte](),
}

// quotable are types for which encoding/json has the option string.
var quotable = []reflect.Type{
	reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
	reflect.TypeFor[*int](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](),
	reflect.TypeFor[uint64](), reflect.TypeFor[uintptr](), reflect.TypeFor[float32](), reflect.TypeFor[*float64](),
	reflect.TypeFor[bool](), reflect.TypeFor[*bool](), reflect.TypeFor[json.Number](),
}

// drawField draws a struct with a field of a type that reads only some of the values of its JSON type.
func drawField(t *rapid.T) (typ reflect.Type, s *Schema) {
	f := reflect.StructField{Name: "F", Tag: `json:"f"`}
	if rapid.Bool().Draw(t, "quoted") {
		f.Type, f.Tag = rapid.SampledFrom(quotable).Draw(t, "type"), `json:"f,string"`
	} else {
		f.Type = rapid.SampledFrom(readable).Draw(t, "type")
	}
	typ = reflect.StructOf([]reflect.StructField{f})
	b := builder{}
	s = b.root(typ)
	if len(b.errs) > 0 {
		t.Fatal(b.errs)
	}
	return typ, s
}

// drawLimit draws an integer at the limit of a Go type.
var drawLimit = rapid.Custom(func(t *rapid.T) string {
	bits := rapid.SampledFrom([]int{0, 7, 8, 15, 16, 31, 32, 63, 64}).Draw(t, "bits")
	f := new(strings.Builder)
	if rapid.Bool().Draw(t, "negative") {
		f.WriteByte('-')
	}
	n := uint64(1)<<bits + uint64(rapid.IntRange(-1, 1).Draw(t, "beside"))
	if bits == 64 && n == 0 {
		return f.String() + "18446744073709551616"
	}
	fmt.Fprint(f, n)
	return f.String()
})

// drawJSONText draws texts that are nearly, or really, those of times, durations, quantities and numbers.
var drawJSONText = rapid.OneOf(
	drawLimit,
	rapid.StringMatching(`[0-2][0-9]{3}-[01][0-9]-[0-3][0-9][tT ][0-2][0-9]:[0-6][0-9]:[0-6][0-9]`+
		`([.,]([0-9]{1,3}|[0-9]{6}|[0-9]{9}))?([zZ]|[+-][0-2][0-9]:[0-6][0-9])`),
	rapid.StringMatching(`[+-]?(([0-9]{1,3}|[0-9]{6,8})(\.[0-9]{0,3})?(h|m|s|ms|us|µs|μs|ns|d| ?minutes)?){1,8}`),
	rapid.StringMatching(`[+-]?[0-9]{0,3}(\.[0-9]{0,3})?([eE][+-]?[0-9]{0,4}(\.[0-9])?|[kKMGTPE]i?|[num])?`),
	rapid.StringMatching(`-?[0-9](\.[0-9]{1,8})?[eE][+-]?(3[0-9]|30[0-9])`),
	rapid.SampledFrom([]string{"", "null", "true", "false", "0", "-0", "00", "+1", "1d", "5 minutes", "90",
		"now", "abc", "TRUE",
		"2562047h47m16.854775807s", "2562047h47m16.854775808s", "-2562047h47m16.854775808s", "2562048h", "9999999h",
		"1.7976931348623157e+308", "1.7976931348623159e+308", "3.4028235e+38", "3.4028236e+38", "1e999",
		"0x1p4", "1_000", "Inf", "NaN", " 1", "1 "}),
)

// A Go type reads every value that its schema lets in.
func TestTypesReadWhatTheirSchemasAccept(t *testing.T) {
	let := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		typ, s := drawField(t)
		text := drawJSONText.Draw(t, "text")
		raw := string(asJSON(text))
		var n json.Number
		if rapid.Bool().Draw(t, "bare") && json.Unmarshal([]byte(text), &n) == nil && text[0] != '"' && text != "null" {
			if _, err := n.Int64(); err != nil && isInteger(n) {
				return // the server keeps it as a float, and refuses it as an integer
			}
			raw = text
		}
		switch typ.Field(0).Type.Kind() {
		case reflect.Map:
			raw = `{"a":` + raw + `}`
		case reflect.Slice:
			if typ.Field(0).Type.Elem().Kind() != reflect.Uint8 {
				raw = `[` + raw + `]`
			}
		}
		raw = `{"f":` + raw + `}`
		v, err := decodeJSON([]byte(raw))
		if err != nil || len(violations(s, v, "")) > 0 {
			return
		}
		let[typ.String()]++
		if err := json.Unmarshal(asServed(raw), reflect.New(typ).Interface()); err != nil {
			t.Fatalf("%s cannot read %s, which its schema lets in: %v\n%s", typ, raw, err, asJSON(s))
		}
	})
	t.Logf("let in: %v", let)
}

// asServed returns a value as a server sends it: an integer has no fraction and no exponent.
func asServed(raw string) []byte {
	var v any
	if json.Unmarshal([]byte(raw), &v) != nil {
		return []byte(raw)
	}
	m := v.(map[string]any)
	if f, ok := m["f"].(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return fmt.Appendf(nil, `{"f":%d}`, int64(f))
	}
	return []byte(raw)
}

// The schema of a Go type lets in every value that the type writes.
func TestSchemasAcceptWhatTypesWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ, s := drawField(t)
		v := reflect.New(typ)
		fillReadable(t, v.Elem().Field(0))
		text, err := json.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		value, err := decodeJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		if value.(map[string]any)["f"] == nil {
			return
		}
		if found := violations(s, value, ""); len(found) > 0 {
			t.Fatalf("%s writes %s: %v", typ, text, found)
		}
	})
}

// fillReadable sets a value to any that its type can hold and write.
func fillReadable(t *rapid.T, v reflect.Value) {
	at := func() time.Time {
		zone := time.FixedZone("", 60*rapid.IntRange(-14*60, 14*60).Draw(t, "zone"))
		const year0, year9998 = -62167219200, 253339228800
		return time.Unix(rapid.Int64Range(year0+1e6, year9998).Draw(t, "seconds"),
			rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")).In(zone)
	}
	switch x := v.Addr().Interface().(type) {
	case *metav1.Time:
		x.Time = at()
		return
	case *metav1.MicroTime:
		x.Time = at()
		return
	case *time.Time:
		*x = at()
		return
	case *metav1.Duration:
		longest := rapid.Int64Range(math.MaxInt64-1e13, math.MaxInt64)
		x.Duration = time.Duration(rapid.OneOf(rapid.Int64(), longest, rapid.Just(int64(math.MinInt64))).Draw(t, "duration"))
		return
	case *resource.Quantity:
		form := rapid.SampledFrom([]resource.Format{resource.DecimalSI, resource.BinarySI, resource.DecimalExponent})
		*x = *resource.NewMilliQuantity(rapid.Int64().Draw(t, "quantity"), form.Draw(t, "form"))
		return
	case *intstr.IntOrString:
		*x = intstr.FromInt32(rapid.Int32().Draw(t, "number"))
		if rapid.Bool().Draw(t, "string") {
			*x = intstr.FromString(rapid.String().Draw(t, "text"))
		}
		return
	case *json.Number:
		*x = json.Number(rapid.SampledFrom([]string{"0", "-1", "1.5", "1e3", "-2.5E-7", "123456789012345678901234567890"}).
			Draw(t, "number"))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Draw(t, "float32")))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float64"))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillReadable(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillReadable(t, v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		fillReadable(t, e)
		v.SetMapIndex(reflect.ValueOf("a"), e)
	default:
		bits := v.Type().Bits()
		if v.CanInt() {
			v.SetInt(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64})).
				Draw(t, "int") >> (64 - bits))
			return
		}
		v.SetUint(rapid.OneOf(rapid.Uint64(), rapid.Just(uint64(math.MaxUint64))).Draw(t, "uint") >> (64 - bits))
	}
}

// A tag cannot widen what the Go type reads, and an older definition of the same type loses nothing.
func TestTagsDoNotWiden(t *testing.T) {
	for tag, f := range map[string]any{
		`json:"f" crd:"max=256"`:                           uint8(0),
		`json:"f" crd:"min=-5"`:                            uint32(0),
		`json:"f" crd:"format=int64"`:                      int32(0),
		`json:"f" crd:"items.max=200"`:                     []int8{},
		`json:"f" crd:"values.exclusiveMin=-129"`:          map[string]int8{}, // -128 is the lowest
		`json:"f" crd:"format=double"`:                     float32(0),
		`json:"f,string" crd:"default=x"`:                  0,
		`json:"f" crd:"default=1d"`:                        metav1.Duration{},
		`json:"f" crd:"pattern=.*,default=1d"`:             metav1.Duration{},
		`json:"f" crd:"pattern=.*,default=1e1.5"`:          resource.Quantity{},
		`json:"f" crd:"pattern=.*,default=a"`:              resource.Quantity{},
		`json:"f" crd:"max=3000000000,default=2500000000"`: intstr.IntOrString{},
	} {
		typ := reflect.StructOf([]reflect.StructField{{Name: "F", Type: reflect.TypeOf(f), Tag: reflect.StructTag(tag)}})
		b := builder{}
		b.root(typ)
		narrows := strings.Contains(tag, "-129")
		if (len(b.errs) == 0) != narrows {
			t.Errorf("%s: %v", typ, b.errs)
		}
	}
	for _, typ := range append(readable, quotable...) {
		for _, tag := range []string{`json:"f"`, `json:"f,string"`} {
			b := builder{}
			is := b.root(reflect.StructOf([]reflect.StructField{{Name: "F", Type: typ, Tag: reflect.StructTag(tag)}}))
			was := new(Schema)
			if err := json.Unmarshal(asJSON(is), was); err != nil {
				t.Fatal(err)
			}
			for s := range was.walk() {
				s.AllOf = nil
			}
			c := comparer{}
			c.compare(was, is, "", false)
			c.compare(is, is, "", false)
			if len(c.breaks) > 0 {
				t.Errorf("%s %s: %v", typ, tag, c.breaks)
			}
		}
	}
}
