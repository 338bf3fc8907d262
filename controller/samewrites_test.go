package controller

import (
	"testing"

	"github.com/pintle-go/pintle/internal/written"
)

// Two objects of servers with storages of their own have the same resourceVersion. The
// change of the one is not the write of the other.
func TestWriteOfAnotherObjectWithTheSameVersion(t *testing.T) {
	w := new(writes)
	w.note(written.Write{UID: "mine", ResourceVersion: "7"})
	w.note(written.Write{UID: "nobody's"})
	if !w.include("7", "mine", false) {
		t.Error("the write is not recognized")
	}
	if w.include("7", "other", false) || w.include("", "nobody's", false) {
		t.Error("a change of another object counts as the write")
	}
}
