package wire

import (
	"errors"
	"fmt"
	"io"
)

// A compressed answer of some kilobytes may be gigabytes long. So everything that is held
// in memory as one piece has a bound.

// ErrTooLarge is wrapped by the errors of answers that are over their bound.
var ErrTooLarge = errors.New("the answer is too large")

// tooLarge names the setting by which the users of a client set the bound.
func tooLarge(most int64) error {
	return fmt.Errorf("%w: over %d bytes (see Config.MaxObjectBytes)", ErrTooLarge, most)
}

// bounded reads a bounded number of bytes between two calls of next.
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

// ReadAll reads a whole answer. The answer may have up to most bytes.
func ReadAll(r io.Reader, most int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(body)) > most {
		err = tooLarge(most)
	}
	return body, err
}
