package kube

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lists makes f answer all lists.
func (s *apiServer) lists(f func(*http.Request) (*http.Response, error)) {
	s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
		if isWatch(r) {
			return nil, nil
		}
		return f(r)
	})
}

// metadataLast moves the metadata of a list behind its items, where servers put it
// in the lists of custom resources.
func metadataLast(resp *http.Response) *http.Response {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	i, j := bytes.Index(body, []byte(`"metadata":`)), bytes.Index(body, []byte(`,"items":`))
	moved := slices.Concat(body[:i], body[j+1:len(body)-1], []byte(","), body[i:j], []byte("}"))
	return answer(200, typeJSON, moved)
}

// TestStaleListWithItsMetadataLast answers with a stale list. Only the end of the list
// shows that it is stale.
func TestStaleListWithItsMetadataLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		f := follow(t, widgets(s.client(t)).Watch, noteOfWidget)
		s.put(key("a"), "one")
		old := s.put(key("gone"), "one")
		f.taken()
		s.remove(key("gone"))
		s.put(key("a"), "two")
		f.taken()
		lists := 0
		s.lists(func(r *http.Request) (*http.Response, error) {
			rv, state := s.rv, s.at(s.rv)
			if lists++; lists <= 2 {
				rv, state = old.rv, s.at(old.rv)
			}
			var items []modelObject
			for _, o := range state {
				items = append(items, o)
			}
			return metadataLast(s.encodeList(r, rv, "", items)), nil
		})
		s.hold()
		s.put(key("b"), "one")
		s.loseHistory()
		time.Sleep(time.Minute)
		wantLines(t, "events", f.taken(), "ADDED default/b one", "SYNCED")
	})
}

// TestOlderDuplicateOnALaterPage answers with pages that are not of one moment.
func TestOlderDuplicateOnALaterPage(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		old := s.put(key("a"), "one")
		now := s.put(key("a"), "two")
		duplicate := func(_ int, r *http.Request) (*http.Response, error) {
			switch {
			case isWatch(r):
				return nil, nil
			case r.URL.Query().Get("continue") == "":
				return s.encodeList(r, s.rv, "next", []modelObject{now}), nil
			}
			return s.encodeList(r, s.rv, "", []modelObject{old}), nil
		}
		s.setIntercept(duplicate)
		f := watch(nil)
		wantLines(t, "events", names(f.taken()), "ADDED default/a", "SYNCED")
		s.forget()
		s.cutWatches()
		time.Sleep(time.Minute)
		wantLines(t, "events of the next listing", names(f.taken()), "SYNCED")
	})
}

func TestStoreOfAnOlderDuplicateOnALaterPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		old := s.put(key("a"), "one")
		now := s.put(key("a"), "two")
		s.lists(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("continue") == "" {
				return s.encodeList(r, now.rv, "next", []modelObject{now}), nil
			}
			return s.encodeList(r, now.rv, "", []modelObject{old}), nil
		})
		store, _ := startStore(t, configMaps(s.client(t)))
		wantLines(t, "content", content(t, store), "default/a two")
	})
}

// TestUnreadableItemIsNotTakenForDeleted lists an object after a watch was lost. The
// object's metadata does not decode.
func TestUnreadableItemIsNotTakenForDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		bad  string
		want []string
	}{
		"of a known key": {
			`{"kind":"Widget","metadata":{"name":"bad","namespace":"default","uid":"u","labels":7}}`,
			[]string{"DELETED default/gone", "SYNCED"},
		},
		"of an unknown key": {`{"kind":"Widget","metadata":{"name":7,"labels":7}}`, []string{"SYNCED"}},
		"of an unknown place": {`{"kind":"Widget","metadata":{"name":"bad","namespace":[],"labels":7}}`,
			[]string{"SYNCED"}},
		"without metadata":       {`{"kind":"Widget"}`, []string{"SYNCED"}},
		"not an object":          {`7`, []string{"SYNCED"}},
		"whose metadata is none": {`{"kind":"Widget","metadata":[]}`, []string{"SYNCED"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				for _, n := range []string{"a", "bad", "gone"} {
					s.put(key(n), "one")
				}
				c := s.client(t)
				f := follow(t, widgets(c).Watch, noteOfWidget)
				store, _ := startStore(t, widgets(c))
				changes := follow(t, store.Watch, noteOfWidget)
				f.taken()
				changes.taken()
				s.hold()
				s.remove(key("gone"))
				s.lists(func(r *http.Request) (*http.Response, error) {
					return answer(200, typeJSON, jsonList(metav1.ListMeta{ResourceVersion: fmt.Sprint(s.rv)},
						s.objects[key("a")].json(r), []byte(tc.bad))), nil
				})
				s.loseHistory()
				time.Sleep(time.Second)
				wantLines(t, "events", names(f.taken()), tc.want...)
				wantLines(t, "changes of the store", names(changes.taken()), tc.want[:len(tc.want)-1]...)
				s.setIntercept(nil)
				s.loseHistory()
				time.Sleep(time.Second)
				f.taken()
				if o, err := store.Get(t.Context(), key("gone")); o != nil {
					t.Errorf("after a listing that can be read: %v, %v", o, err)
				}
			})
		})
	}
}

// TestUnreadableProtobufItemIsNotTakenForDeleted is the same in protobuf, where the
// metadata breaks off.
func TestUnreadableProtobufItemIsNotTakenForDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		cut  int // bytes of the metadata that are left; below zero: all, followed by nonsense
		want []string
	}{
		"before the name":      {3, []string{"SYNCED"}},
		"after the name":       {9, []string{"SYNCED"}},
		"after the version":    {-1, []string{"DELETED default/gone", "SYNCED"}},
		"without any metadata": {0, []string{"SYNCED"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				for _, n := range []string{"a", "bad", "gone"} {
					s.put(key(n), "one")
				}
				f := follow(t, configMaps(s.client(t)).Watch, noteOfConfigMap)
				f.taken()
				s.hold()
				s.remove(key("gone"))
				s.lists(func(r *http.Request) (*http.Response, error) {
					om := s.objects[key("bad")].object(r).(*corev1.ConfigMap).ObjectMeta
					meta := marshal(t, &om)
					if tc.cut >= 0 {
						meta = meta[:tc.cut]
					} else {
						meta = append(bytes.Clone(meta), 0xff)
					}
					bad := appendBytes(nil, 1, meta)
					return answer(200, typeProtobuf, protobufList(metav1.ListMeta{ResourceVersion: fmt.Sprint(s.rv)},
						s.objects[key("a")].protobuf(r), bad)), nil
				})
				s.loseHistory()
				time.Sleep(time.Second)
				wantLines(t, "events", names(f.taken()), tc.want...)
			})
		})
	}
}

// TestDeletionWhoseObjectCannotBeRead deletes an object with metadata that does not
// decode. The key of the object is known all the same.
func TestDeletionWhoseObjectCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		o := s.put(key("a"), "one")
		c := s.client(t)
		var out *io.PipeWriter
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if !isWatch(r) {
				return nil, nil
			}
			resp, writer := piped(r, typeJSON)
			out = writer
			return resp, nil
		})
		f := follow(t, widgets(c).Watch, noteOfWidget)
		f.taken()
		_, err := out.Write(jsonEvent(
			eventDeleted,
			fmt.Appendf(
				nil,
				`{"kind":"Widget","metadata":{"name":"a","namespace":"default","uid":%q,"resourceVersion":"900","labels":7}}`,
				o.uid,
			),
		))
		if err != nil {
			t.Fatal(err)
		}
		wantLines(t, "events", names(f.taken()), "DELETED default/a")
	})
}

// TestAnswerThatIsNoListOfTheKindEmptiesNothing answers a relist with anything but a list
// of the kind. The answer has a resourceVersion all the same.
func TestAnswerThatIsNoListOfTheKindEmptiesNothing(t *testing.T) {
	protoPod := func(kind string) []byte {
		return inEnvelope(kind, appendBytes(nil, 1, marshal(t, &metav1.ListMeta{ResourceVersion: "900"})))
	}
	for name, tc := range map[string]struct {
		contentType string
		body        []byte
		widgets     bool // the answer is not wrong for a ConfigMap
	}{
		"another kind's list": {typeJSON,
			[]byte(`{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[]}`), false},
		"another group's list": {typeJSON,
			[]byte(`{"kind":"ConfigMapList","apiVersion":"b.example.com/v1","metadata":{"resourceVersion":"900"},"items":[]}`), false},
		"list of the same group": {typeJSON,
			[]byte(`{"kind":"GadgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"900"},"items":[]}`), true},
		"list of the same group, items": {typeJSON,
			[]byte(`{"apiVersion":"example.com/v1","items":[{"kind":"Gadget","metadata":{"name":"g","namespace":"default"}}],"kind":"GadgetList","metadata":{"resourceVersion":"900"}}`), true},
		"list of any kind": {typeJSON,
			[]byte(`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[]}`), false},
		"single object": {typeJSON,
			[]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","resourceVersion":"900"}}`), false},
		"single widget": {typeJSON,
			[]byte(`{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a","namespace":"default","resourceVersion":"900"}}`), true},
		"status": {typeJSON,
			[]byte(`{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"900"},"status":"Success"}`), false},
		"list without items": {typeJSON,
			[]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900"}}`), false},
		"list of widgets without items": {typeJSON,
			[]byte(`{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"900"}}`), true},
		"items of nobody": {typeJSON, []byte(`{"metadata":{"resourceVersion":"900"},"items":[]}`), false},
		"nothing":         {typeJSON, []byte(`{}`), false},
		"page of a proxy": {"text/html",
			[]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[]}`), false},
		"another kind's list in protobuf":  {typeProtobuf, protoPod("SecretList"), false},
		"single object in protobuf":        {typeProtobuf, protoPod("ConfigMap"), false},
		"nobody's list in protobuf":        {typeProtobuf, protoPod(""), false},
		"empty answer of protobuf":         {typeProtobuf, nil, false},
		"envelope without a list":          {typeProtobuf, []byte("k8s\x00"), false},
		"empty answer that should be JSON": {typeJSON, nil, false},
		"list that breaks off": {typeJSON,
			[]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[`), false},
		"list of widgets whose kind is null": {typeJSON,
			[]byte(`{"kind":null,"apiVersion":"example.com/v1","metadata":{"resourceVersion":"900"},"items":[]}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				s.put(key("a"), "one")
				c := s.client(t)
				var f, changes *follower
				if tc.widgets {
					store, _ := startStore(t, widgets(c))
					f, changes = follow(t, widgets(c).Watch, noteOfWidget), follow(t, store.Watch, noteOfWidget)
				} else {
					store, _ := startStore(t, configMaps(c))
					f, changes = follow(t, configMaps(c).Watch, noteOfConfigMap), follow(t, store.Watch, noteOfConfigMap)
				}
				f.taken()
				changes.taken()
				s.lists(func(*http.Request) (*http.Response, error) { return answer(200, tc.contentType, tc.body), nil })
				s.loseHistory()
				time.Sleep(5 * time.Minute)
				wantLines(t, "events", f.taken())
				wantLines(t, "changes of the store", changes.taken())
				if r := f.reports(); len(r) == 0 {
					t.Error("nothing is reported")
				}
				s.setIntercept(nil)
				s.put(key("b"), "one")
				time.Sleep(maxDelay)
				wantLines(t, "events of the next list", names(f.taken()), "ADDED default/b", "SYNCED")
			})
		})
	}
}

// TestListsOfAnUnusualName serves a custom kind whose definition names its lists.
func TestListsOfAnUnusualName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.lists(func(r *http.Request) (*http.Response, error) {
			var items []modelObject
			for _, o := range s.objects {
				items = append(items, o)
			}
			body, err := io.ReadAll(s.encodeList(r, s.rv, "", items).Body)
			return answer(200, typeJSON, bytes.ReplaceAll(body, []byte("WidgetList"), []byte("WidgetoidList"))), err
		})
		f := follow(t, widgets(s.client(t)).Watch, noteOfWidget)
		wantLines(t, "events", names(f.taken()), "SYNCED")
		s.put(key("a"), "one")
		wantLines(t, "events", names(f.taken()), "ADDED default/a")
		s.hold()
		s.remove(key("a"))
		s.loseHistory()
		time.Sleep(time.Second)
		wantLines(t, "events", names(f.taken()), "DELETED default/a", "SYNCED")
	})
}

// TestKindWhoseListsHaveNoResourceVersion has a store of a kind that cannot be watched,
// such as the kinds of metrics.k8s.io.
func TestKindWhoseListsHaveNoResourceVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		s.put(key("b"), "one")
		bare := func(list *http.Response) *http.Response {
			body, err := io.ReadAll(list.Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, member := range []string{`"resourceVersion":"`, `"uid":"`} {
				for i := bytes.Index(body, []byte(member)); i >= 0; i = bytes.Index(body, []byte(member)) {
					end := i + len(member) + bytes.IndexByte(body[i+len(member):], '"') + 1
					if body[end] == ',' {
						end++
					}
					body = slices.Concat(body[:i], body[end:])
				}
			}
			return answer(200, typeJSON, bytes.ReplaceAll(body, []byte(",}"), []byte("}")))
		}
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if isWatch(r) {
				return status(405, metav1.StatusReasonMethodNotAllowed, "no watches here"), nil
			}
			resp, err := s.list(r, "")
			return bare(resp), err
		})
		s.jsonOnly = true
		c := s.client(t)
		f := follow(t, configMaps(c).Watch, noteOfConfigMap)
		store, _ := startStore(t, configMaps(c))
		changes := follow(t, store.Watch, noteOfConfigMap)
		wantLines(t, "events", noOrder(f.taken()), "ADDED default/a one", "ADDED default/b one", "SYNCED")
		wantLines(t, "changes", noOrder(changes.taken()), "ADDED default/a one", "ADDED default/b one", "SYNCED")
		s.put(key("a"), "two")
		s.remove(key("b"))
		time.Sleep(pollEvery)
		wantLines(t, "events", f.taken()[:3], "MODIFIED default/a two", "DELETED default/b", "SYNCED")
		wantLines(t, "changes", noOrder(changes.taken()), "DELETED default/b one", "MODIFIED default/a two")
		time.Sleep(time.Hour)
		for _, line := range f.taken() {
			if line != "SYNCED" {
				t.Errorf("without a change: %q", line)
			}
		}
		wantLines(t, "changes without a change", changes.taken())
		if n := len(s.paths()); n > 2*250 || n < 2*110 {
			t.Errorf("%d requests in an hour", n)
		}
		if r := f.reports(); len(r) > 0 {
			t.Errorf("reports: %v", r)
		}
	})
}

func noOrder(lines []string) []string {
	slices.SortFunc(lines, strings.Compare)
	return lines
}
