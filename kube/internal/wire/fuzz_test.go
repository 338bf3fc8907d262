package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/wire/wiretest"
)

// Input from the wire must never cause a panic, an endless loop or a read past its end.
// The meaning of valid input must be the same as for the generated code and
// encoding/json.

const bound = 64 << 20

func seedPod() *corev1.Pod {
	yes := true
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "p", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "o", UID: "ou", Controller: &yes}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}},
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{
			Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "E", Value: "\"\\u00e9\n"}},
		}}},
	}
}

func marshal(t testing.TB, m message) []byte {
	t.Helper()
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func marshalJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzFields(f *testing.F) {
	f.Add(marshal(f, seedPod()), 1)
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 1)
	f.Add([]byte{0x08, 0x80}, 1)
	f.Add([]byte{0x09, 1, 2, 3}, 1)
	f.Fuzz(func(t *testing.T, msg []byte, num int) {
		total := 0
		for rest := msg; len(rest) > 0; {
			field, after, err := nextField(rest)
			if err != nil {
				break
			}
			if len(field.all) == 0 || len(field.all)+len(after) != len(rest) || len(field.val) > len(field.all) {
				t.Fatalf("a field of %d bytes in %d, %d are left", len(field.all), len(rest), len(after))
			}
			total += len(field.all)
			rest = after
		}
		if val, err := findField(msg, num); err == nil && total != len(msg) && val != nil {
			t.Fatal("found a field in a message that is malformed")
		}
		cutEnvelope(msg)
		envelopeType(msg)
	})
}

func FuzzListProtobuf(f *testing.F) {
	msg := marshal(f, seedPod())
	f.Add(wiretest.ProtobufList(metav1.ListMeta{ResourceVersion: "9", Continue: "c"}, msg, msg))
	f.Add(wiretest.ProtobufList(metav1.ListMeta{}))
	f.Add([]byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\x3f"))
	f.Fuzz(func(t *testing.T, body []byte) {
		read := func(r interface{ Read([]byte) (int, error) }) (items [][]byte, meta metav1.ListMeta, err error) {
			meta, err = ListReader{MaxBytes: bound, Each: func(item Raw) error {
				items = append(items, bytes.Clone(item.Bytes))
				return nil
			}}.Read(TypeProtobuf, r)
			return items, meta, err
		}
		items, meta, err := read(bytes.NewReader(body))
		slow, slowMeta, slowErr := read(iotest.OneByteReader(bytes.NewReader(body)))
		if !reflect.DeepEqual(items, slow) || !reflect.DeepEqual(meta, slowMeta) || (err == nil) != (slowErr == nil) {
			t.Fatalf("it matters how the bytes come: %d items and %v, %d items and %v", len(items), err, len(slow), slowErr)
		}
		raw, ok := cutEnvelope(body)
		var list corev1.PodList
		if err == nil && ok && list.Unmarshal(raw) == nil &&
			(len(list.Items) != len(items) || list.ResourceVersion != meta.ResourceVersion) {
			t.Fatalf("%d items, want %d", len(items), len(list.Items))
		}
		if err == nil && len(body) > 0 {
			// A list that is cut short is an error, or not the whole list.
			cut, _, err := read(bytes.NewReader(body[:len(body)-1]))
			if err == nil && len(cut) > len(items) {
				t.Fatal("more in less")
			}
		}
	})
}

func FuzzListJSON(f *testing.F) {
	f.Add(wiretest.JSONList(metav1.ListMeta{ResourceVersion: "9"}, marshalJSON(f, seedPod()), []byte("{}")))
	f.Add([]byte(`{"items":null,"metadata":{"resourceVersion":"1"}}`))
	f.Add([]byte(`{"items":[1,"a",{}],"items":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n := 0
		meta, err := ListReader{MaxBytes: bound, Each: func(item Raw) error {
			if n++; !jsontext.Value(item.Bytes).IsValid(decodeOptions) {
				t.Fatalf("item %q is not JSON", item.Bytes)
			}
			return nil
		}}.Read(TypeJSON, bytes.NewReader(body))
		var list struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		once := func(name string) bool { return bytes.Count(body, []byte(name)) == 1 }
		if err == nil && once("items") && once("metadata") && jsontext.Value(body).IsValid() &&
			json.Unmarshal(body, &list) == nil && once(`"items"`) {
			plain := !bytes.Contains(body, []byte(`\`)) && once(`"resourceVersion"`) &&
				bytes.Count(bytes.ToLower(body), []byte("resourceversion")) == 1
			if len(list.Items) != n || plain && list.Metadata.ResourceVersion != meta.ResourceVersion {
				t.Fatalf("%d items at %q, want %d at %q", n, meta.ResourceVersion, len(list.Items), list.Metadata.ResourceVersion)
			}
		}
	})
}

// FuzzListBound reads lists with a small bound: every piece in memory keeps to the bound,
// and a list that can be read gives the same result as without a bound.
func FuzzListBound(f *testing.F) {
	codec := mustCodec[corev1.ConfigMap](f, true)
	msg := marshal(f, seedPod())
	f.Add(true, wiretest.ProtobufList(metav1.ListMeta{ResourceVersion: "9"}, msg, msg), 64)
	f.Add(false, wiretest.JSONList(metav1.ListMeta{ResourceVersion: "9"}, []byte(`{"metadata":{"name":"a"}}`)), 1000)
	f.Add(false, []byte(`{"kind":"ConfigMapList","apiVersion":"v1","items":[{},{}],"metadata":{}}`), 40)
	f.Fuzz(func(t *testing.T, proto bool, body []byte, most int) {
		most = max(most, 1)
		read := func(most int) (items [][]byte, kinds int, err error) {
			l := ListReader{Codec: codec, MaxBytes: int64(most), Named: func(string, bool) { kinds++ }}
			l.Each = func(item Raw) error {
				if len(item.Bytes) > most {
					t.Fatalf("an item of %d bytes, %d are allowed", len(item.Bytes), most)
				}
				items = append(items, bytes.Clone(item.Bytes))
				return nil
			}
			contentType := TypeJSON
			if proto {
				contentType = TypeProtobuf
			}
			_, err = l.Read(contentType, bytes.NewReader(body))
			return items, kinds, err
		}
		items, kinds, err := read(most)
		all, _, unbound := read(bound)
		switch {
		case err == nil && (unbound != nil || !reflect.DeepEqual(items, all)):
			t.Fatalf("%d items, and without a bound %d and %v", len(items), len(all), unbound)
		case err == nil && kinds == 0:
			t.Fatal("a list that does not name its kind")
		case err != nil && unbound == nil && !errors.Is(err, ErrTooLarge):
			t.Fatalf("only with a bound: %v", err)
		}
	})
}

func FuzzWatchProtobuf(f *testing.F) {
	object := wiretest.Envelope("Pod", marshal(f, seedPod()))
	f.Add(append(wiretest.ProtobufEvent(Added, object), wiretest.ProtobufEvent(Bookmark, object)...))
	f.Add(wiretest.ErrorEvent(true, metav1.Status{Code: 410}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	// An owner reference whose field after the uid has a wire type that does not exist.
	malformed := bytes.Replace(object, []byte("ou\x2a"), []byte("ou\x2f"), 1)
	if bytes.Equal(malformed, object) {
		f.Fatal("the owner reference is not found")
	}
	f.Add(wiretest.ProtobufEvent(Added, malformed))
	codec := mustCodec[corev1.Pod](f, true)
	f.Fuzz(func(t *testing.T, stream []byte) {
		fuzzEvents(t, NewEvents(TypeProtobuf, bytes.NewReader(stream), bound), len(stream), func(ev Event) {
			fuzzEvent(t, codec, ev, new(corev1.Pod))
		})
	})
}

func FuzzWatchJSON(f *testing.F) {
	object := marshalJSON(f, seedPod())
	f.Add(append(wiretest.JSONEvent(Added, object), wiretest.JSONEvent(Bookmark, object)...))
	f.Add(wiretest.ErrorEvent(false, metav1.Status{Code: 410}))
	f.Add([]byte(`{"type":"ADDED","object":null}`))
	codec := mustCodec[widget](f, false)
	f.Fuzz(func(t *testing.T, stream []byte) {
		fuzzEvents(t, NewEvents(TypeJSON, bytes.NewReader(stream), bound), len(stream), func(ev Event) {
			fuzzEvent(t, codec, ev, new(widget))
		})
	})
}

// fuzzEvents reads events as a watch does: it skips the malformed ones.
func fuzzEvents(t *testing.T, events *Events, size int, each func(Event)) {
	for range size + 1 {
		ev, err := events.Next()
		switch {
		case err == nil:
			each(ev)
		case !errors.Is(err, ErrEvent):
			return
		}
	}
	t.Fatal("more events than bytes")
}

// fuzzEvent uses an event in all ways in which a watch and a store use it.
func fuzzEvent(t *testing.T, codec *Codec, ev Event, into Object) {
	_, _, _ = ReadBookmark(ev.Object)
	if is, known := Identify(ev.Object); known && is.Key.Name == "" {
		t.Fatal("a key without a name")
	}
	r, err := NewRecorder(codec).Record(ev.Object)
	if err != nil {
		return
	}
	is, known := Identify(ev.Object)
	if known != (r.Key.Name != "") || is.Key != r.Key || is.UID != r.UID || is.ResourceVersion != r.ResourceVersion {
		t.Fatalf("of %v %s %s the identity is %v %s %s, %t",
			r.Key, r.UID, r.ResourceVersion, is.Key, is.UID, is.ResourceVersion, known)
	}
	e := NewEntry(r)
	if e.UID() != r.UID || e.ResourceVersion() != r.ResourceVersion || !e.Holds(r) || !e.IsIn([]string{r.Key.Namespace}) {
		t.Fatalf("uid %q and version %q are kept as %q and %q", r.UID, r.ResourceVersion, e.UID(), e.ResourceVersion())
	}
	e.Labels().Has("app")
	e.Generation()
	e.Deleting()
	uids := slices.Collect(e.OwnerUIDs())
	for o := range e.Owners() {
		if len(uids) == 0 || uids[0] != o.UID {
			t.Fatalf("owners %q lack %q", uids, o.UID)
		}
		uids = uids[1:]
	}
	if !codec.SameSpec(e, e) {
		t.Fatal("an object does not have its own spec")
	}
	_ = e.Decode(codec, into)
}

func FuzzPruneJSON(f *testing.F) {
	f.Add(marshalJSON(f, seedPod()))
	f.Add([]byte(`{"spec":{"nodeName":"n","containers":[{"image":"i","name":"c"},null]},"status":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := mustCodec[podView](t, false)
		kept, err := c.json.append(nil, b)
		if !jsontext.Value(b).IsValid() {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if !jsontext.Value(kept).IsValid() {
			t.Fatalf("%q is pruned to %q", b, kept)
		}
		// For the type, nothing is missing.
		var want, got podView
		if json.Unmarshal(b, &want) == nil && bytes.Equal(b, jsontext.Value(bytes.Clone(b))) {
			if err := json.Unmarshal(kept, &got); err != nil {
				t.Fatalf("%q: %v", kept, err)
			}
		}
	})
}

func FuzzPruneProtobuf(f *testing.F) {
	f.Add(marshal(f, seedPod()))
	f.Fuzz(func(t *testing.T, msg []byte) {
		c := mustCodec[podView](t, true)
		kept, err := c.proto.append(nil, msg)
		whole := new(corev1.Pod)
		if err != nil {
			if whole.Unmarshal(msg) == nil {
				// The generated code skips groups, which the API does not use.
				return
			}
			return
		}
		if whole.Unmarshal(msg) != nil {
			return
		}
		part := new(corev1.Pod)
		if err := part.Unmarshal(kept); err != nil {
			t.Fatalf("pruned to %x: %v", kept, err)
		}
		var want, got podView
		c.project(reflect.ValueOf(&want).Elem(), reflect.ValueOf(whole).Elem())
		c.project(reflect.ValueOf(&got).Elem(), reflect.ValueOf(part).Elem())
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}
