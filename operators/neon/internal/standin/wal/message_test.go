package wal

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzMessages(f *testing.F) {
	var seed bytes.Buffer
	for kind, body := range map[byte][]byte{
		kindAppend: encodeAppend(Append{Term: 1, Generation: 2, At: 3, Commit: 4, Data: []byte("x")}),
		kindData:   encodeData(data{At: 1, Commit: 2, Bytes: []byte("x")}),
		kindVote:   encodeTerm(7),
		kindHello:  []byte(`{"tenant":"t","timeline":"l","token":"k"}`),
		kindElect:  []byte(`{"term":1,"history":[{"term":1,"lsn":5}]}`),
	} {
		seed.Reset()
		if err := writeMessage(&seed, kind, body); err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(seed.Bytes()))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kind, body, err := readMessage(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := writeMessage(&again, kind, body); err != nil || !bytes.HasPrefix(raw, again.Bytes()) {
			t.Fatalf("written again: %v\n%x\n%x", err, raw, again.Bytes())
		}
		if a, err := parseAppend(body); err == nil && !bytes.Equal(encodeAppend(a), body) {
			t.Errorf("append: %+v of %x", a, body)
		}
		if d, err := parseData(body); err == nil && !bytes.Equal(encodeData(d), body) {
			t.Errorf("data: %+v of %x", d, body)
		}
		if term, err := parseTerm(body); err == nil && !bytes.Equal(encodeTerm(term), body) {
			t.Errorf("term: %d of %x", term, body)
		}
		if e, err := parse[Election](body); err == nil {
			text, err := marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if same, err := parse[Election](text); err != nil || !cmp.Equal(e, same) {
				t.Errorf("election: %+v, %+v, %v", e, same, err)
			}
		}
	})
}

func TestLargeMessagesAreRefused(t *testing.T) {
	t.Parallel()
	if _, _, err := readMessage(bytes.NewReader([]byte{kindAppend, 0xff, 0, 0, 0})); err == nil {
		t.Error("a message of 4 GB is read")
	}
}
