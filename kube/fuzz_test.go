package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What comes from the wire must never panic, loop or read past its end, and what
// is valid must mean what the generated code and encoding/json make of it.

func seedPod() *corev1.Pod {
	yes := true
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "p", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "o", UID: "ou", Controller: &yes}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}},
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "E", Value: "\"\\u00e9\n"}}}}},
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
		envelopeKind(msg)
	})
}

func FuzzListProtobuf(f *testing.F) {
	msg := marshal(f, seedPod())
	f.Add(protobufList(metav1.ListMeta{ResourceVersion: "9", Continue: "c"}, msg, msg))
	f.Add(protobufList(metav1.ListMeta{}))
	f.Add([]byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\x3f"))
	f.Fuzz(func(t *testing.T, body []byte) {
		read := func(r interface{ Read([]byte) (int, error) }) (items [][]byte, meta metav1.ListMeta, err error) {
			meta, err = listReader{proto: true, most: defaultMaxObject, each: func(item []byte) error {
				items = append(items, bytes.Clone(item))
				return nil
			}}.read(r)
			return items, meta, err
		}
		items, meta, err := read(bytes.NewReader(body))
		slow, slowMeta, slowErr := read(iotest.OneByteReader(bytes.NewReader(body)))
		if !reflect.DeepEqual(items, slow) || !reflect.DeepEqual(meta, slowMeta) || (err == nil) != (slowErr == nil) {
			t.Fatalf("it matters how the bytes come: %d items and %v, %d items and %v", len(items), err, len(slow), slowErr)
		}
		raw, ok := cutEnvelope(body)
		var list corev1.PodList
		if err == nil && ok && list.Unmarshal(raw) == nil && (len(list.Items) != len(items) || list.ResourceVersion != meta.ResourceVersion) {
			t.Fatalf("%d items, want %d", len(items), len(list.Items))
		}
		if err == nil && len(body) > 0 {
			// Cut short anywhere it is an error, or not all of the list.
			cut, _, err := read(bytes.NewReader(body[:len(body)-1]))
			if err == nil && len(cut) > len(items) {
				t.Fatal("more in less")
			}
		}
	})
}

func FuzzListJSON(f *testing.F) {
	f.Add(jsonList(metav1.ListMeta{ResourceVersion: "9"}, marshalJSON(f, seedPod()), []byte("{}")))
	f.Add([]byte(`{"items":null,"metadata":{"resourceVersion":"1"}}`))
	f.Add([]byte(`{"items":[1,"a",{}],"items":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n := 0
		meta, err := listReader{most: defaultMaxObject, each: func(item []byte) error {
			if n++; !json.Valid(item) && jsontext.Value(item).IsValid(decodeOptions) == false {
				t.Fatalf("item %q is no JSON", item)
			}
			return nil
		}}.read(bytes.NewReader(body))
		var list struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err == nil && bytes.Count(body, []byte(`items`)) == 1 && bytes.Count(body, []byte(`metadata`)) == 1 && jsontext.Value(body).IsValid() &&
			json.Unmarshal(body, &list) == nil && bytes.Contains(body, []byte(`"items"`)) {
			if len(list.Items) != n || list.Metadata.ResourceVersion != meta.ResourceVersion && !bytes.Contains(body, []byte(`\`)) && bytes.Contains(body, []byte(`"resourceVersion"`)) && bytes.Count(bytes.ToLower(body), []byte("resourceversion")) == 1 {
				t.Fatalf("%d items at %q, want %d at %q", n, meta.ResourceVersion, len(list.Items), list.Metadata.ResourceVersion)
			}
		}
	})
}

// FuzzListBound has lists read with a small bound: what is held as one piece keeps
// to it, and what passes is what passes without.
func FuzzListBound(f *testing.F) {
	msg := marshal(f, seedPod())
	f.Add(true, protobufList(metav1.ListMeta{ResourceVersion: "9"}, msg, msg), 64)
	f.Add(false, jsonList(metav1.ListMeta{ResourceVersion: "9"}, marshalJSON(f, seedPod())), 1000)
	f.Add(false, []byte(`{"kind":"PodList","apiVersion":"v1","items":[{},{}],"metadata":{}}`), 40)
	f.Fuzz(func(t *testing.T, proto bool, body []byte, most int) {
		most = max(most, 1)
		read := func(most int) (items [][]byte, kinds int, err error) {
			l := listReader{proto: proto, most: int64(most)}
			l.is = func(string, string) error { kinds++; return nil }
			l.each = func(item []byte) error {
				if len(item) > most {
					t.Fatalf("an item of %d bytes, %d are allowed", len(item), most)
				}
				items = append(items, bytes.Clone(item))
				return nil
			}
			_, err = l.read(bytes.NewReader(body))
			return items, kinds, err
		}
		items, kinds, err := read(most)
		all, _, unbound := read(defaultMaxObject)
		switch {
		case err == nil && (unbound != nil || !reflect.DeepEqual(items, all)):
			t.Fatalf("%d items, and without a bound %d and %v", len(items), len(all), unbound)
		case err == nil && kinds == 0:
			t.Fatal("a list that does not say of what")
		case err != nil && unbound == nil && !errors.Is(err, errTooLarge):
			t.Fatalf("only with a bound: %v", err)
		}
	})
}

func FuzzWatchProtobuf(f *testing.F) {
	object := inEnvelope("Pod", marshal(f, seedPod()))
	f.Add(append(protobufEvent(eventAdded, object), protobufEvent(eventBookmark, object)...))
	f.Add(errorEvent(true, metav1.Status{Code: 410}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, stream []byte) {
		events := newProtobufEvents(bytes.NewReader(stream), defaultMaxObject)
		rec := recorder{codec: mustCodec[corev1.Pod](t, true)}
		for range len(stream) + 1 {
			raw, err := events.next()
			if err != nil {
				return
			}
			if ev, err := parseEventProtobuf(raw); err == nil {
				fuzzEvent(t, &rec, true, ev)
			}
		}
		t.Fatal("more events than bytes")
	})
}

func FuzzWatchJSON(f *testing.F) {
	object := marshalJSON(f, seedPod())
	f.Add(append(jsonEvent(eventAdded, object), jsonEvent(eventBookmark, object)...))
	f.Add(errorEvent(false, metav1.Status{Code: 410}))
	f.Add([]byte(`{"type":"ADDED","object":null}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		events := newJSONEvents(bytes.NewReader(stream), defaultMaxObject)
		rec := recorder{codec: mustCodec[widget](t, false)}
		for range len(stream) + 1 {
			raw, err := events.next()
			if err != nil {
				return
			}
			if ev, err := parseEventJSON(raw); err == nil {
				fuzzEvent(t, &rec, false, ev)
			}
		}
		t.Fatal("more events than bytes")
	})
}

// fuzzEvent does with an event all that a watch does.
func fuzzEvent(t *testing.T, rec *recorder, proto bool, ev wireEvent) {
	decodeStatus(ev.object)
	_, _, _ = rec.bookmark(proto, ev.object)
	if is, known := rec.identity(proto, ev.object); known && is.key.Name == "" {
		t.Fatal("a key without a name")
	}
	r, err := rec.record(proto, ev.object)
	if err != nil {
		return
	}
	if is, known := rec.identity(proto, ev.object); known != (r.key.Name != "") || is.key != r.key || is.uid != r.uid || is.rv != r.rv {
		t.Fatalf("of %v %s %s the identity is %v %s %s, %t", r.key, r.uid, r.rv, is.key, is.uid, is.rv, known)
	}
	e := newEntry(r)
	if e.uid() != r.uid || e.rv() != r.rv {
		t.Fatalf("uid %q and version %q are kept as %q and %q", r.uid, r.rv, e.uid(), e.rv())
	}
	(*labelsOf)(e).Has("app")
	e.owners(func(types.UID) {})
	if proto {
		_ = e.decode(rec.codec, new(corev1.Pod))
	} else {
		_ = e.decode(rec.codec, new(widget))
	}
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
		// To the type nothing is missing.
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

func FuzzStatus(f *testing.F) {
	st := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 410, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "x"}}}}
	f.Add(marshalJSON(f, &st))
	f.Add(inEnvelope("Status", marshal(f, &st)))
	f.Add(inEnvelope("Pod", marshal(f, seedPod())))
	f.Add([]byte(`{"kind":"Status","reason":"ServerTimeout","code":504,"details":{"retryAfterSeconds":-1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if st, ok := decodeStatus(body); ok && st == nil {
			t.Fatal("no status")
		}
		resp := answer(500, typeJSON, body)
		err := statusError(resp, &request{resource: widgetKind, verb: "get"})
		if err == nil {
			t.Fatal("no error")
		}
		if d, asked := suggestedDelay(err); d < 0 || d > maxRetryAfter || !asked && d != 0 {
			t.Fatalf("%v: wait for %s", err, d)
		}
		if p := paceAfter(err, 0); p <= atOnce || p >= paces {
			t.Fatalf("%v: pace %d", err, p)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"5", "-1", "99999999999", "Sat, 21 Nov 2026 10:00:00 GMT", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		d, asked := retryAfter(&http.Response{Header: http.Header{"Retry-After": {header}}})
		if d < 0 || d > maxRetryAfter || !asked && d != 0 {
			t.Fatalf("%q: %s", header, d)
		}
		if j := jitter(d); j < d || j > 2*d {
			t.Fatalf("jitter of %s is %s", d, j)
		}
	})
}
