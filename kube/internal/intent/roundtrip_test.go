package intent

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// For any content of an object of k8s.io/api, decoding the sent body gives the object
// back, except for the fields that the rules never send.
func TestRoundTrip(t *testing.T) {
	seed := randomSeed()
	t.Logf("seed %d", seed)
	fill := filler(seed, 0.3, 0, 3)
	rounds := 20
	if testing.Short() || raceEnabled {
		rounds = 1 // there is nothing to race here
	}
	types := kinds()
	if len(types) < 200 {
		t.Fatalf("found %d kinds in k8s.io/api", len(types))
	}
	for _, typ := range types {
		if strings.HasSuffix(typ.Name(), "List") {
			continue
		}
		e, err := For(typ)
		if err != nil {
			t.Error(err)
			continue
		}
		for range rounds {
			object := reflect.New(typ)
			fill.Fill(object.Interface())
			checkRoundTrip(t, e, object)
		}
	}
}

func checkRoundTrip(t testing.TB, e *Encoder, object reflect.Value) {
	t.Helper()
	for _, part := range []Part{Spec, Status} {
		if part == Status {
			status := object.Elem().FieldByName("Status")
			if e.status == nil || status.Kind() == reflect.Pointer && status.IsNil() {
				continue
			}
		}
		opt := Options{APIVersion: "g/v", Kind: "K", Part: part}
		sent, err := e.Object(nil, object.Interface(), opt)
		if err != nil {
			t.Errorf("%s: %v", e.typ, err)
			return
		}
		want := reflect.New(e.typ)
		want.Elem().Set(object.Elem())
		dropUnsent(want.Elem(), part)
		for name, decode := range map[string]func([]byte, any) error{
			"encoding/json": json.Unmarshal,
			"go-json-experiment": func(b []byte, v any) error {
				return jsonv2.Unmarshal(b, v)
			},
		} {
			got := reflect.New(e.typ)
			if err := decode(sent, got.Interface()); err != nil {
				t.Errorf("%s: decode with %s: %v\n%s", e.typ, name, err, sent)
				return
			}
			if !equality.Semantic.DeepEqual(got.Interface(), want.Interface()) {
				t.Errorf("%s: %s decodes %s\nto   %s\nnot  %s", e.typ, name, sent, dump(got), dump(want))
				return
			}
			again, err := e.Object(nil, got.Interface(), opt)
			if err != nil || string(again) != string(sent) {
				t.Errorf("%s: encoded again: %v\n%s\nnot\n%s", e.typ, err, again, sent)
				return
			}
		}
		if err := checkNulls(sent); err != nil {
			t.Errorf("%s: %v in %s", e.typ, err, sent)
		}
	}
}

func dump(v reflect.Value) string {
	out, err := json.Marshal(v.Interface())
	return fmt.Sprint(string(out), err)
}

// dropUnsent removes the fields of an object that are not in a part of it.
func dropUnsent(object reflect.Value, part Part) {
	for i := range object.NumField() {
		f := object.Field(i)
		switch f := f.Addr().Interface().(type) {
		case *metav1.TypeMeta:
			*f = metav1.TypeMeta{APIVersion: "g/v", Kind: "K"}
			continue
		case *metav1.ObjectMeta:
			m := metav1.ObjectMeta{Name: f.Name, Namespace: f.Namespace, UID: f.UID}
			if part == Spec {
				m.GenerateName, m.Labels, m.Annotations, m.OwnerReferences = f.GenerateName, f.Labels, f.Annotations, f.OwnerReferences
			}
			*f = m
			continue
		}
		if isStatus := object.Type().Field(i).Name == "Status"; isStatus != (part == Status) {
			f.SetZero()
		}
	}
}

// checkNulls reports a null outside of the RawExtensions of fills.
func checkNulls(sent []byte) error {
	d := jsontext.NewDecoder(strings.NewReader(string(sent)))
	for d.PeekKind() != 0 {
		tok, err := d.ReadToken()
		if err != nil {
			return err
		}
		path := string(d.StackPointer())
		if tok.Kind() == 'n' && !strings.HasSuffix(path, "/a") && !strings.HasSuffix(path, "/0") {
			return fmt.Errorf("null at %s", path)
		}
	}
	return nil
}

// For objects without empty values, encoding/json sends the same.
func TestFullObjectsSameAsEncodingJSON(t *testing.T) {
	seed := randomSeed()
	t.Logf("seed %d", seed)
	fill := filler(seed, 0, 1, 1).MaxDepth(12)
	for _, typ := range kinds() {
		if strings.HasSuffix(typ.Name(), "List") {
			continue
		}
		e, err := For(typ)
		if err != nil {
			t.Fatal(err)
		}
		object := reflect.New(typ)
		fill.Fill(object.Interface())
		sent, err := e.Object(nil, object.Interface(), Options{APIVersion: "g/v", Kind: "K"})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := json.Marshal(object.Interface())
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := json.Unmarshal(sent, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(plain, &want); err != nil {
			t.Fatal(err)
		}
		want["apiVersion"], want["kind"] = "g/v", "K"
		delete(want, "status")
		if meta, ok := want["metadata"].(map[string]any); ok {
			for name := range meta {
				if !inSpec(name) {
					delete(meta, name)
				}
			}
		}
		if diff := firstDiff("", prune(got), prune(want)); diff != "" {
			t.Errorf("%s: %s", typ, diff)
		}
	}
}

// prune removes members that are null or empty.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			member = prune(member)
			switch m := member.(type) {
			case nil:
				delete(v, name)
				continue
			case map[string]any:
				if len(m) == 0 {
					delete(v, name)
					continue
				}
			case []any:
				if len(m) == 0 {
					delete(v, name)
					continue
				}
			case float64, string, bool:
				if reflect.ValueOf(m).IsZero() || m == "0" { // "0" is a zero Quantity
					delete(v, name)
					continue
				}
			}
			v[name] = member
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return v
}

// firstDiff names one place where two JSON values differ.
func firstDiff(path string, got, want any) string {
	g, ok := got.(map[string]any)
	w, both := want.(map[string]any)
	if !ok || !both {
		if l, ok := got.([]any); ok {
			if m, ok := want.([]any); ok && len(l) == len(m) {
				for i := range l {
					if diff := firstDiff(fmt.Sprint(path, "/", i), l[i], m[i]); diff != "" {
						return diff
					}
				}
				return ""
			}
		}
		if reflect.DeepEqual(got, want) {
			return ""
		}
		return fmt.Sprintf("%s is %.200v, want %.200v", path, got, want)
	}
	for _, m := range []map[string]any{g, w} {
		for name := range m {
			if diff := firstDiff(path+"/"+name, g[name], w[name]); diff != "" {
				return diff
			}
		}
	}
	return ""
}

func FuzzRoundTrip(f *testing.F) {
	f.Add(int64(1), uint8(0), "a")
	f.Add(int64(2), uint8(128), "\xff")
	f.Add(int64(3), uint8(255), "\u2028<&>\"\\\x00")
	types := []reflect.Type{
		reflect.TypeFor[appsv1.Deployment](), reflect.TypeFor[corev1.Pod](), reflect.TypeFor[corev1.Service](),
		reflect.TypeFor[networkingv1.NetworkPolicy](), reflect.TypeFor[corev1.PersistentVolume](),
	}
	f.Fuzz(func(t *testing.T, seed int64, nils uint8, text string) {
		fill := filler(seed, float64(nils)/255, 0, 2)
		typ := types[int(uint64(seed)%uint64(len(types)))]
		e, err := For(typ)
		if err != nil {
			t.Fatal(err)
		}
		object := reflect.New(typ)
		fill.Fill(object.Interface())
		meta := object.Interface().(metav1.Object)
		meta.SetAnnotations(map[string]string{text: "x", "a": text, text + "a": ""})
		if _, err := e.Object(nil, object.Interface(), thingOptions); err != nil {
			if strings.ToValidUTF8(text, "") == text {
				t.Fatal(err)
			}
			return
		}
		checkRoundTrip(t, e, object)
	})
}
