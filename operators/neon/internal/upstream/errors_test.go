package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	type verdict struct {
		folded    int
		retryable bool
	}
	for name, c := range map[string]struct {
		err  error
		want verdict
	}{
		"other parameters": {
			&Error{Status: 409, Message: "Conflict: 1 (127.0.0.1) 409 Conflict: 409 Conflict timeline already exists with different parameters"},
			verdict{folded: 409},
		},
		"branch point that was collected": {
			&Error{Status: 409, Message: "Conflict: 1 (127.0.0.1) 406 Not Acceptable: 406 Not Acceptable invalid branch start lsn"},
			verdict{folded: 406},
		},
		"unknown ancestor": {
			&Error{Status: 409, Message: "Conflict: 1 (127.0.0.1) 500 Internal Server Error: 500 Internal Server Error Cannot branch"},
			verdict{folded: 500},
		},
		"being made": {
			&Error{Status: 409, Message: "Conflict: 2 (pageserver-1.ns.svc) 429 Too Many Requests: 429 Too Many Requests"},
			verdict{folded: 429, retryable: true},
		},
		"conflict of the storage controller's own": {
			&Error{Status: 409, Message: "Conflict: Node 3 has delete in progress"}, verdict{},
		},
		"parent": {
			&Error{Status: 500, Message: "Error deleting timeline b on a: Cannot delete timeline which has child timelines: [c]"},
			verdict{},
		},
		"quorum":      {&Error{Status: 500, Message: "not enough successful reconciliations"}, verdict{retryable: true}},
		"busy":        {&Error{Status: 503}, verdict{retryable: true}},
		"too many":    {&Error{Status: 429}, verdict{retryable: true}},
		"not allowed": {&Error{Status: 403}, verdict{}},
		"no answer":   {&TransportError{cause: context.DeadlineExceeded}, verdict{retryable: true}},
		"other":       {errors.New("other"), verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("create timeline: %w", c.err)
			if got := (verdict{Folded(err), Retryable(err)}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestMessagesHoldNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "53kr3t"
	for _, text := range []string{
		`{"error":"CREATE ROLE app PASSWORD '` + secret + `' LOGIN"}`,
		`{"error":"ALTER ROLE app ENCRYPTED PASSWORD 'SCRAM-SHA-256$4096:` + secret + `$x:y'"}`,
		`{"msg":"connect to postgresql://app:` + secret + `@db:5432/x"}`,
		`{"msg":"primary_conninfo host=a password=` + secret + ` port=1"}`,
		`{"msg":"token eyJhbGciOi.eyJzY29w.` + secret + `"}`,
		"plain password " + secret,
	} {
		err := &Error{Method: http.MethodPost, Path: "/configure", Status: 500, Message: message([]byte(text))}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("error holds the secret: %v", err)
		}
	}
	if long := message([]byte(strings.Repeat("ä", largestBody))); len(long) > largestMessage+len("…") {
		t.Errorf("message has %d bytes, want at most %d", len(long), largestMessage)
	}
}

func TestLSN(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0/0", "0/14EC3A8", "F/10", "FFFFFFFF/FFFFFFFF"} {
		lsn, err := ParseLSN(text)
		if err != nil || lsn.String() != text {
			t.Errorf("ParseLSN(%q) = %v, %v", text, lsn, err)
		}
	}
	for _, text := range []string{"", "0", "/", "0/G", "1/2/3", "100000000/0", "-1/0"} {
		if lsn, err := ParseLSN(text); err == nil {
			t.Errorf("ParseLSN(%q) = %v, want an error", text, lsn)
		}
	}
}
