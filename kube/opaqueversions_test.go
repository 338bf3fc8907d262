package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/own"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// named returns a state of the object with a version of letters.
func (e *ensuredTable) named(version string, uid types.UID) *corev1.ConfigMap {
	o := e.state(0, version, "")
	o.ResourceVersion, o.UID = version, uid
	return o
}

// shows has the watch show a state.
func (e *ensuredTable) shows(o *corev1.ConfigMap) {
	e.t.Helper()
	if err := e.sink.event(wire.Modified, e.record(e.t, o, true)); err != nil {
		e.t.Fatal(err)
	}
}

// waits reports that a read of the object does not take the state that is known.
func (e *ensuredTable) waits() bool {
	_, _, need := e.peek(e.at)
	return need != own.Read
}

// A write has a version, no number, that another object has too. That object does not show
// the write.
func TestOwnWriteWithTheVersionOfAnotherObject(t *testing.T) {
	for name, show := range map[string]func(e *ensuredTable){
		"an earlier object of the name": func(e *ensuredTable) { e.shows(e.named("x1", "earlier")) },
		"an object of another name": func(e *ensuredTable) {
			o := e.named("x1", "other")
			o.Name = "b"
			e.shows(o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnsuredTable(t)
			show(e)
			e.wrote(e.named("x1", "uid"))
			if !e.waits() {
				t.Error("a read does not wait for the write")
			}
			e.shows(e.named("x1", "uid"))
			if is, _, need := e.peek(e.at); need != own.Read || is == nil || !is.Is("uid") {
				t.Error("a read still waits after the watch has shown the write")
			}
		})
	}
}

// The server answers the question about a write with a version of letters. The
// answer does not hold against a state that the watch shows later.
func TestAnswerWithVersionThatIsNoNumber(t *testing.T) {
	asks := func(e *ensuredTable, meanwhile func()) (left bool) {
		e.table.unsure(e.at)
		mine, _, _ := e.questions([]Key{e.at})
		before := e.entry(e.at)
		meanwhile()
		is := wire.NewEntry(e.record(e.t, e.named("x2", "uid"), true))
		e.answer(e.t.Context(), e.at, mine[e.at], before, &fetched{entry: is}, nil)
		return mine[e.at].again
	}
	t.Run("the watch goes on before the answer comes", func(t *testing.T) {
		e := newEnsuredTable(t)
		e.shows(e.named("x1", "uid"))
		left := asks(e, func() { e.shows(e.named("x2", "uid")); e.shows(e.named("x3", "uid")) })
		if !left || !e.waits() {
			t.Errorf("the answer holds: it has to be asked again %t, a read waits %t", left, e.waits())
		}
	})
	t.Run("the watch goes on after the answer", func(t *testing.T) {
		e := newEnsuredTable(t)
		e.shows(e.named("x1", "uid"))
		if left := asks(e, func() {}); left || e.waits() {
			t.Fatalf("the answer does not hold: it has to be asked again %t, a read waits %t", left, e.waits())
		}
		e.shows(e.named("x3", "uid"))
		if !e.waits() {
			t.Error("the answer holds after the watch has shown another state")
		}
	})
	t.Run("a listing that had begun is of a later time", func(t *testing.T) {
		e := newEnsuredTable(t)
		e.shows(e.named("x1", "uid"))
		e.sink.begin()
		asks(e, func() {})
		if err := e.sink.item(e.record(t, e.named("x3", "uid"), true)); err != nil {
			t.Fatal(err)
		}
		if err := e.sink.synced("x3"); err != nil {
			t.Fatal(err)
		}
		if !e.waits() {
			t.Error("the answer holds after a list has shown another state")
		}
	})
	t.Run("the watch shows the answer", func(t *testing.T) {
		e := newEnsuredTable(t)
		e.shows(e.named("x1", "uid"))
		asks(e, func() {})
		e.shows(e.named("x2", "uid"))
		e.shows(e.named("x3", "uid"))
		if is, _, need := e.peek(e.at); need != own.Read || is.ResourceVersion() != "x3" {
			t.Errorf("a read has to %v, or gets %s", need, is.ResourceVersion())
		}
	})
}
