package kube

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// ensuredTable is a table without a watch. The test ensures an object in it.
type ensuredTable struct {
	*table
	t      testing.TB
	sink   *tableSink
	at     Key
	wanted [sha256.Size]byte
}

func newEnsuredTable(t testing.TB) *ensuredTable {
	t.Helper()
	s := newAPIServer()
	s.intercept = func(int, *http.Request) (*http.Response, error) { // no other process has applied
		return jsonAnswer(200, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"name": "a", "namespace": "default", "uid": "uid", "managedFields": ensuredFields,
		}}), nil
	}
	h := For[corev1.ConfigMap](s.client(t)).In("default").handle
	table := newTable(h, nil)
	return &ensuredTable{table, t, &tableSink{table: table, namespace: "default"}, key("a"),
		sha256.Sum256([]byte("the note is ours"))}
}

var ensuredFields = []metav1.ManagedFieldsEntry{{
	Manager: "me", Operation: metav1.ManagedFieldsOperationApply,
	FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:note":{}}}`),
}}

// state returns a version of the object.
func (e *ensuredTable) state(version int, note, theirs string) *corev1.ConfigMap {
	o := &corev1.ConfigMap{Data: map[string]string{"note": note, "theirs": theirs}}
	o.Name, o.Namespace, o.UID, o.ResourceVersion = e.at.Name, e.at.Namespace, "uid", strconv.Itoa(version)
	// Another manager's entry changes with every version.
	o.ManagedFields = append([]metav1.ManagedFieldsEntry{{
		Manager: "them", Operation: metav1.ManagedFieldsOperationApply,
		FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:data":{"f:theirs":{},"f:%d":{}}}`, version)),
	}}, ensuredFields...)
	return o
}

// wrote tells the table that a write of this process was answered with o.
func (e *ensuredTable) wrote(o *corev1.ConfigMap) {
	raw, err := wire.EncodeJSON(o)
	if err != nil {
		e.t.Error(err) // any goroutine may call Error, but not Fatal
	}
	e.table.wrote(e.handle, KeyOf(o), o, wire.Raw{Bytes: raw})
}

// deletes tells the table that this process has deleted the object.
func (e *ensuredTable) deletes(uid types.UID) { e.table.deleted(e.at, uid) }

// remembered returns what a table remembers besides its watch.
func remembered(t *table) string {
	var lines []string
	now := t.now()
	for lane := range len(t.lanes) {
		for _, key := range now.own.Marked(lane) {
			lines = append(lines, fmt.Sprint(key, " ", now.own.Look(key)))
		}
	}
	if now.own.Doubtful(now.own.Began()) {
		lines = append(lines, "a write of unknown name")
	}
	return strings.Join(lines, "; ")
}

// shared returns o as it is after another process has applied one more field in the name
// of the manager.
func shared(o *corev1.ConfigMap) *corev1.ConfigMap {
	o.Data["<more>"] = "theirs"
	entry := &o.ManagedFields[len(o.ManagedFields)-1]
	entry.FieldsV1 = metav1.NewFieldsV1(`{"f:data":{"f:<more>":{},"f:note":{}}}`)
	return o
}

// begins notes that an Ensure is on its way.
func (e *ensuredTable) begins() *ensuring {
	req := &request{query: url.Values{"fieldManager": {"me"}}}
	return e.ensured.begin(part{key: e.at}, e.wanted, req, Change{})
}

// answered notes a state as the answer to an Ensure.
func (e *ensuredTable) answered(o *corev1.ConfigMap) { e.begins().done(e.handle.client, o) }

func (e *ensuredTable) record(t rapid.TB, o *corev1.ConfigMap, proto bool) wire.Record {
	encode := o.Marshal
	if !proto {
		encode = func() ([]byte, error) { return wire.EncodeJSON(o) }
	}
	raw, err := encode()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := wire.NewRecorder(e.handle.codec).Record(wire.Raw{Bytes: raw, Protobuf: proto})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func (e *ensuredTable) unchanged(t rapid.TB) bool {
	same, _, err := e.table.unchanged(context.Background(), part{key: e.at}, e.wanted, new(corev1.ConfigMap))
	if err != nil {
		t.Error(err) // any goroutine may call Error, but not Fatal
	}
	return same
}

// A question waits for the watch as long as the watch has not told of the write. The
// answer is based on the events of the watch.
func TestEnsuredWhileTheWatchIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsuredTable(t)
		first := e.state(10, "ours", "none")
		_ = e.sink.synced("9")
		e.wrote(first)
		e.answered(first)
		same := make(chan bool)
		go func() { same <- e.unchanged(t) }()
		synctest.Wait()
		_ = e.sink.event(eventAdded, e.record(t, first, true))
		_ = e.sink.event(eventModified, e.record(t, e.state(11, "ours", "theirs"), true))
		if !<-same {
			t.Error("nothing has changed, and that is not seen")
		}
	})
}

// TestEnsuredModel makes the answer to an Ensure come at any time before, between and
// after the watch's events. A list may hide some of these events. Others change the
// values, or apply more in the name of the manager. If an object is held to be unchanged,
// it is unchanged. If an object is unchanged, it is held to be so.
func TestEnsuredModel(t *testing.T) {
	tb := t
	rapid.Check(t, func(t *rapid.T) {
		e := newEnsuredTable(tb)
		states := []*corev1.ConfigMap{e.state(10, "ours", "none")}
		for i := range rapid.IntRange(0, 4).Draw(t, "changes") {
			note := rapid.SampledFrom([]string{"ours", "ours", "others'"}).Draw(t, "note")
			o := e.state(11+i, note, fmt.Sprint("theirs ", i))
			if rapid.IntRange(0, 2).Draw(t, "applied by another process") == 0 {
				shared(o)
			}
			states = append(states, o)
		}
		ours := func(o *corev1.ConfigMap) bool { return o.Data["note"] == "ours" && o.Data["<more>"] == "" }
		ensure := e.begins()
		turn, kept := rapid.IntRange(0, len(states)).Draw(t, "the answer comes before"), true
		for i := 0; i <= len(states); i++ {
			if i == turn {
				ensure.done(e.handle.client, states[0])
			}
			if i == len(states) {
				break
			}
			kept = kept && ours(states[i])
			proto := rapid.Bool().Draw(t, "protobuf")
			last := i == len(states)-1
			switch {
			case !last && rapid.IntRange(0, 5).Draw(t, "hidden") == 0:
				continue
			case rapid.Bool().Draw(t, "listed"):
				e.sink.begin()
				_ = e.sink.item(e.record(t, states[i], proto))
				_ = e.sink.synced(states[i].ResourceVersion)
			default:
				_ = e.sink.event(eventModified, e.record(t, states[i], proto))
			}
			if i < turn || !rapid.Bool().Draw(t, "asked") {
				continue
			}
			if same := e.unchanged(t); same && !ours(states[i]) {
				t.Fatalf("state %d is held to be unchanged: %v", i, states[i].Data)
			}
		}
		end, same := states[len(states)-1], e.unchanged(t)
		switch {
		case same && !ours(end):
			t.Fatalf("the end is held to be unchanged: %v", end.Data)
		case !same && kept:
			t.Fatal("nothing has changed, and that is not seen")
		}
	})
}

// A child may take the place of an object. A store that shows the object decides that,
// however many other stores run whose selectors hide it.
func TestEnsureAsksTheStoreThatShowsTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "somebody's")
		cms := For[corev1.ConfigMap](s.client(t)).In("default")
		startStore(t, cms.ReadOnly())
		for i := range 3 {
			startStore(t, cms.Labeled(fmt.Sprint("app=", i)).ReadOnly())
		}
		synctest.Wait()
		for range 20 {
			o, yes := new(corev1.ConfigMap), true
			o.Name, o.Labels = "a", map[string]string{"app": "1"}
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "owner",
				Controller: &yes}}
			if _, err := cms.Ensure(t.Context(), o); !errors.Is(err, ErrTaken) {
				t.Fatalf("an object without an owner is taken: %v", err)
			}
		}
	})
}

// An object goes while the answer to its Ensure is noted. The table forgets it.
func TestEnsuredObjectGoesBeforeTheAnswer(t *testing.T) {
	for name, seen := range map[string]bool{"the watch showed it": true, "the watch did not show it": false} {
		t.Run(name, func(t *testing.T) {
			e := newEnsuredTable(t)
			_ = e.sink.synced("9")
			o := e.state(10, "ours", "none")
			ensure := e.begins()
			if seen {
				_ = e.sink.event(eventAdded, e.record(t, o, true))
			}
			e.wrote(o)
			if seen {
				o.ResourceVersion = "11"
				_ = e.sink.event(eventDeleted, e.record(t, o, true))
			} else {
				e.sink.begin()
				_ = e.sink.synced("12")
			}
			ensure.done(e.handle.client, e.state(10, "ours", "none"))
			if n := len(e.ensured.by); n > 0 {
				t.Errorf("%d parts of objects that are gone are remembered", n)
			}
		})
	}
}

// A server tells no managedFields on its watches, and its versions are not integers.
func TestEnsureWithoutManagedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsuredTable(t)
		_ = e.sink.synced("v9")
		state := func(version, note string) *corev1.ConfigMap {
			o := e.state(0, note, "none")
			o.ResourceVersion = version
			return o
		}
		bare := func(o *corev1.ConfigMap) *corev1.ConfigMap {
			o.ManagedFields = nil
			return o
		}
		writes := 0
		ensure := func(o *corev1.ConfigMap) {
			if e.unchanged(t) {
				return
			}
			writes++
			by := e.begins()
			e.wrote(o)
			by.done(e.handle.client, o)
		}
		ensure(state("v10", "one"))
		_ = e.sink.event(eventAdded, e.record(t, bare(state("v10", "one")), true))
		ensure(state("v10", "one"))
		// The intent changes, and so do the fields that the manager owns.
		e.wanted[0]++
		more := func() *corev1.ConfigMap { return shared(state("v11", "two")) }
		ensure(more())
		_ = e.sink.event(eventModified, e.record(t, bare(more()), true))
		for range 5 {
			ensure(more())
		}
		if writes != 2 {
			t.Errorf("%d writes for two intents", writes)
		}
	})
}

// A server that was restored from a backup gives a resource version a second time. The
// version alone does not show the answer then.
func TestEnsuredVersionIsGivenTwice(t *testing.T) {
	for _, restored := range []bool{false, true} {
		e := newEnsuredTable(t)
		_ = e.sink.synced("9")
		e.answered(e.state(11, "ours", "none"))
		if restored {
			e.sink.begin()
			_ = e.sink.item(e.record(t, e.state(10, "before", "none"), true))
			_ = e.sink.synced("10")
		}
		note := "ours"
		if restored {
			note = "others'"
		}
		_ = e.sink.event(eventModified, e.record(t, e.state(11, note, "none"), true))
		if same := e.unchanged(t); same == restored {
			t.Errorf("restored: %t: the object is held to be unchanged: %t", restored, same)
		}
	}
}
