package pod

import (
	"bytes"
	"io"
	"testing"

	"k8s.io/apimachinery/pkg/util/remotecommand"
)

// FuzzMessage demultiplexes what a server may send.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{"", "\x01", "\x01text", "\x02text", "\x03{}", "\x09x", "\xff", "\xff\x01", "\xff\x03more", "\xff\xff"} {
		f.Add([]byte(seed), []byte("\x01after"))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := demux{}
		for _, channel := range []byte{remotecommand.StreamStdOut, remotecommand.StreamStdErr, remotecommand.StreamErr} {
			d[channel] = newPipe()
		}
		want, ended := map[byte]string{}, map[byte]bool{}
		for _, message := range [][]byte{first, second} {
			if len(message) > heldBytes {
				t.Skip("would wait for a reader")
			}
			err := d.message(bytes.NewReader(message), make([]byte, 7))
			var bad bool
			switch {
			case len(message) == 0 || message[0] == remotecommand.StreamClose && len(message) == 1:
				bad = true
			case message[0] == remotecommand.StreamClose:
				ended[message[1]] = true
			case d[message[0]] == nil:
			case ended[message[0]]:
				bad = len(message) > 1
			default:
				want[message[0]] += string(message[1:])
			}
			if (err != nil) != bad {
				t.Fatalf("%q: got error %v", message, err)
			}
		}
		d.end(io.ErrUnexpectedEOF)
		for channel, p := range d {
			got, err := io.ReadAll(p)
			if string(got) != want[channel] {
				t.Errorf("channel %d: got %q, want %q", channel, got, want[channel])
			}
			lost := channel == remotecommand.StreamErr && !ended[channel]
			if (err != nil) != lost {
				t.Errorf("channel %d ended with %v", channel, err)
			}
		}
	})
}

// FuzzResult decodes what a server may send as a status.
func FuzzResult(f *testing.F) {
	for _, seed := range []string{
		"", "{", "{}", `{"status":"Success"}`, `{"status":"Failure"}`, `{"status":"Failure","reason":"NonZeroExitCode"}`,
		`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, message []byte, cut bool) {
		var lost error
		if cut {
			lost = io.ErrClosedPipe
		}
		exit, none := result(message, lost)
		if exit != nil && none != nil {
			t.Errorf("%q: both %v and %v", message, exit, none)
		}
		if exit == nil && none == nil && !bytes.Contains(bytes.ToLower(message), []byte("success")) &&
			!bytes.Contains(message, []byte(`\`)) {
			t.Errorf("%q is a success", message)
		}
	})
}
