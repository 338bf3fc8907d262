package kube

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sized is a widget as a type that is wrong about spec.size.
type sized struct {
	Object
	Spec struct {
		Size string `json:"size"`
	} `json:"spec"`
}

func widgetJSON(name string, rv int, spec string) []byte {
	return fmt.Appendf(
		nil,
		`{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":%q,"namespace":"default","uid":"u-%s","resourceVersion":"%d"},"spec":%s}`,
		name,
		name,
		rv,
		spec,
	)
}

func TestJSONObjectThatDoesNotDecodeCostsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			switch n {
			case 1:
				return answer(200, typeJSON, jsonList(metav1.ListMeta{ResourceVersion: "9"},
					widgetJSON("a", 1, `{"size":"1"}`), widgetJSON("bad", 2,
						`{"size":7}`), []byte(`null`), []byte(`{"metadata":{"name":5}}`), widgetJSON("b", 3, `{"size":"2"}`))), nil
			case 2:
				events := jsonEvent(eventAdded, widgetJSON("worse", 10, `[]`))
				events = append(events, jsonEvent(eventModified, widgetJSON("a", 11, `{"size":"3"}`))...)
				return silent(r, typeJSON, events), nil
			}
			return nil, nil
		}
		var bad []string
		f := follow(t, For[sized](s.client(t), widgetKind).Watch, func(o *sized) string {
			if o.Name == "bad" {
				bad = append(bad, string(o.UID)+o.ResourceVersion)
			}
			return o.Spec.Size
		})
		wantLines(t, "events", f.taken(), "ADDED default/a 1", "ERROR bad ADDED", "ADDED default/b 2", "SYNCED",
			"ERROR worse ADDED", "MODIFIED default/a 3")
		if r := f.reports(); len(r) != 1 || !strings.HasSuffix(r[0].Error(), "; it is left out") {
			t.Fatalf("reports: %v", r)
		}
		wantLines(t, "metadata of what does not decode", bad, "u-bad2")
	})
}

func TestProtobufObjectThatDoesNotDecodeCostsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		encode := func(name string, rv int64, bad bool) []byte {
			o := modelObject{key: key(name), uid: "u", rv: rv, note: "one"}
			r, _ := http.NewRequest(http.MethodGet, "http://server/api/v1/configmaps", nil)
			msg := o.protobuf(r)
			if bad {
				msg = appendBytes(msg, 2, []byte{0xff}) // data: not a map entry
			}
			return msg
		}
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			switch n {
			case 1:
				return answer(200, typeProtobuf, protobufList(metav1.ListMeta{ResourceVersion: "9"}, encode("a", 1, false),
					encode("bad", 2, true), []byte{0xff, 0xff}, encode("b", 3, false))), nil
			case 2:
				events := protobufEvent(eventAdded, inEnvelope("ConfigMap", encode("worse", 10, true)))
				events = append(events, protobufEvent(eventModified, inEnvelope("ConfigMap", encode("a", 11, false)))...)
				return silent(r, typeProtobuf, events), nil
			}
			return nil, nil
		}
		f := follow(t, configMaps(s.client(t)).Watch, noteOfConfigMap)
		wantLines(t, "events", f.taken(), "ADDED default/a one", "ERROR bad ADDED", "ADDED default/b one", "SYNCED",
			"ERROR worse ADDED", "MODIFIED default/a one")
		if r := f.reports(); len(r) != 1 || !strings.HasSuffix(r[0].Error(), "; it is left out") {
			t.Fatalf("reports: %v", r)
		}
	})
}

func TestStoreKeepsWhatDoesNotDecode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				return answer(200, typeJSON, jsonList(metav1.ListMeta{ResourceVersion: "100"}, widgetJSON("bad", 2, `{"size":7}`),
					widgetJSON("a", 3, `{"size":"2"}`))), nil
			}
			return nil, nil
		}
		widgets := For[sized](s.client(t), widgetKind).ReadOnly()
		bySize := IndexBy(widgets, func(o *sized) []string { return []string{o.Spec.Size} })
		store, _ := startStore(t, widgets)
		o, err := store.Get(t.Context(), key("bad"))
		var e *Error
		if !errors.As(err, &e) || e.Name != "bad" || o == nil || o.UID != "u-bad" {
			t.Fatalf("Get: %v, %v", o, err)
		}
		good, wrong := 0, 0
		for _, err := range store.All(t.Context()) {
			if err != nil {
				wrong++
			} else {
				good++
			}
		}
		if good != 1 || wrong != 1 {
			t.Fatalf("All: %d good, %d wrong", good, wrong)
		}
		for o, err := range bySize.Get(t.Context(), "2") {
			if err != nil || o.Name != "a" {
				t.Fatalf("index finds %v, %v", o, err)
			}
		}
		if keys, err := bySize.Keys(t.Context()); err != nil || len(keys) != 1 {
			t.Fatalf("index keys: %q, %v", keys, err)
		}
	})
}

func TestUnstructuredObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				return answer(200, typeJSON, jsonList(metav1.ListMeta{ResourceVersion: "100"},
					[]byte(`{"metadata":{"name":"bare","namespace":"default","resourceVersion":"1","creationTimestamp":null}}`),
					widgetJSON("full", 3, `{"size":7,"ratio":0.5,"deep":{"list":[1,{"a":null}]}}`))), nil
			}
			return nil, nil
		}
		store, _ := startStore(t, For[unstructured.Unstructured](s.client(t), widgetKind).ReadOnly())
		bare, err := store.Get(t.Context(), key("bare"))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(
			bare.Object,
		); got != "map[apiVersion:example.com/v1 kind:Widget metadata:map[name:bare namespace:default resourceVersion:1]]" {
			t.Errorf("bare: %s", got)
		}
		full, err := store.Get(t.Context(), key("full"))
		if err != nil {
			t.Fatal(err)
		}
		if size, ok, err := unstructured.NestedInt64(full.Object, "spec", "size"); size != 7 || !ok || err != nil {
			t.Errorf("size: %d, %t, %v in %v", size, ok, err, full.Object)
		}
		if _, err := full.MarshalJSON(); err != nil {
			t.Error(err)
		}
	})
}

// Servers send events without a newline at the end. No event may wait for the next one.
func TestEventIsNotHeldBackUntilTheNext(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		f := watch(nil)
		f.taken()
		s.put(key("a"), strings.Repeat("long", 10000))
		if lines := f.taken(); len(lines) != 1 {
			t.Fatalf("%d events", len(lines))
		}
	})
}

// managedFields are most of the metadata.
func TestManagedFieldsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		c := s.client(t)
		maps, _ := startStore(t, configMaps(c))
		o, err := maps.Get(t.Context(), key("a"))
		if err != nil || len(o.ManagedFields) > 0 {
			t.Errorf("of protobuf: %+v, %v", o, err)
		}
		w, _ := startStore(t, widgets(c))
		x, err := w.Get(t.Context(), key("a"))
		if err != nil || len(x.ManagedFields) > 0 {
			t.Errorf("of JSON: %+v, %v", x, err)
		}
		time.Sleep(time.Second)
	})
}
