package local

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// TestDraw draws where there is no terminal.
func TestDraw(t *testing.T) {
	var to bytes.Buffer
	o := &Output{Name: "run", To: &to}
	err := o.Draw(func(w io.Writer) error {
		fmt.Fprint(w, "one\ntw")
		o.Lines("other")("between")
		fmt.Fprint(w, "o\nthree")
		return io.ErrUnexpectedEOF
	})
	if err == nil {
		t.Error("the error is lost")
	}
	if want := "run     | one\nother   | between\nrun     | two\nrun     | three\n"; to.String() != want {
		t.Errorf("it is %q, want %q", to.String(), want)
	}
}
