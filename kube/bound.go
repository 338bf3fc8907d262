package kube

import (
	"errors"
	"fmt"
	"io"
)

// A compressed answer of some kilobytes may be gigabytes long: whatever is held as
// one piece has a bound.

const (
	// defaultMaxObject is many times what an API server stores.
	defaultMaxObject = 64 << 20
	// severalObjects is how many times larger an answer of several objects may be.
	severalObjects = 8
)

var errTooLarge = errors.New("the answer is too large")

func tooLarge(most int64) error {
	return fmt.Errorf("%w: over %d bytes (see Config.MaxObjectBytes)", errTooLarge, most)
}

// bounded reads at most so many bytes between two calls of next.
type bounded struct {
	r    io.Reader
	most int64
	left int64
}

func (b *bounded) next() { b.left = b.most }

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, tooLarge(b.most)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// readAll reads all of an answer that may be as large as that.
func readAll(r io.Reader, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(body)) > most {
		err = tooLarge(most)
	}
	return body, err
}
