package intent

import (
	"strconv"
	"strings"
)

// fieldError is an error at a path inside an object. The path is put together on the way
// out, last part first: encoding without an error pays nothing for it.
type fieldError struct {
	reversed []string
	err      error
}

func (e *fieldError) Error() string {
	var b strings.Builder
	for i := len(e.reversed) - 1; i >= 0; i-- {
		part := e.reversed[i]
		if b.Len() == 0 {
			part = strings.TrimPrefix(part, ".")
		}
		b.WriteString(part)
	}
	return b.String() + ": " + e.err.Error()
}

func (e *fieldError) Unwrap() error { return e.err }

func atPart(part string, err error) error {
	if f, ok := err.(*fieldError); ok { //nolint:errorlint // one that was wrapped has its path in the middle of a text
		f.reversed = append(f.reversed, part)
		return f
	}
	return &fieldError{reversed: []string{part}, err: err}
}

func atMember(name string, err error) error { return atPart("."+name, err) }
func atIndex(i int, err error) error        { return atPart("["+strconv.Itoa(i)+"]", err) }
func atKey(key string, err error) error     { return atPart("["+strconv.Quote(key)+"]", err) }
