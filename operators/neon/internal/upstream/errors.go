package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Error is an answer other than success.
type Error struct {
	Method, Path string
	Status       int
	// Message is the program's text, without passwords and tokens, at most 2 KiB.
	Message string
}

func (e *Error) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("%s %s: %d %s: %s",
		e.Method, e.Path, e.Status, http.StatusText(e.Status), e.Message), ": ")
}

// folded matches the message of a 409 in which the storage controller hides the status of a
// pageserver: "Conflict: 1 (127.0.0.1) 406 Not Acceptable: …".
var folded = regexp.MustCompile(`^Conflict: \d+ \([^)]*\) (\d{3}) `)

// Folded returns the status that a pageserver gave, where the storage controller answered
// 409 in its place: 406 for a branch point that cannot be had, 409 for a timeline with other
// parameters, 429 for one that is being made, 500 for an ancestor that does not exist. It
// returns zero for all other errors. No such 409 says that the timeline exists as wanted:
// read it and compare.
func (e *Error) Folded() int {
	if e.Status != http.StatusConflict {
		return 0
	}
	match := folded.FindStringSubmatch(e.Message)
	if match == nil {
		return 0
	}
	status, err := strconv.Atoi(match[1])
	if err != nil {
		return 0
	}
	return status
}

// TransportError is a request without an answer: the address is unknown, the connection
// was refused or lost, or the deadline passed. The request may have had its effect.
type TransportError struct{ cause error }

func (e *TransportError) Error() string { return e.cause.Error() }
func (e *TransportError) Unwrap() error { return e.cause }

// Status returns the status of an answer, or zero if there was none.
func Status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// Folded is [Error.Folded] of the [*Error] that err wraps, or zero.
func Folded(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Folded()
	}
	return 0
}

// IsNotFound reports whether the program answered that it does not know the object.
func IsNotFound(err error) bool { return Status(err) == http.StatusNotFound }

// IsConflict reports a 409 of any kind: see [Error.Folded].
func IsConflict(err error) bool { return Status(err) == http.StatusConflict }

// HasChildren reports that a timeline was not deleted or archived because it has children. When
// the call was a deletion, the timeline's WAL is gone nevertheless.
func HasChildren(err error) bool {
	var e *Error
	return errors.As(err, &e) && strings.Contains(e.Message, "child timelines")
}

// Retryable reports whether the same request may succeed later. It says no for answers that
// stay the same until something else is changed, and for errors that are not a program's.
func Retryable(err error) bool {
	var transport *TransportError
	if errors.As(err, &transport) {
		return true
	}
	if HasChildren(err) {
		return false
	}
	switch Status(err) {
	case http.StatusRequestTimeout, http.StatusLocked, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict:
		return Folded(err) == http.StatusTooManyRequests
	}
	return false
}

// secrets are the forms of secrets in the texts of PostgreSQL and of Neon: verifiers,
// passwords in statements and in connection strings, and tokens.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`SCRAM-SHA-256\$[^\s'"\\]+`),
	regexp.MustCompile(`\bmd5[0-9a-f]{32}\b`),
	regexp.MustCompile(`(?i)(password\s*[= ]\s*)('[^']*'|[^\s'"\\]+)`),
	regexp.MustCompile(`(://[^:/@\s]+:)[^@\s]+@`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),
}

func withoutSecrets(text string) string {
	for i, form := range secrets {
		switch i {
		case 2:
			text = form.ReplaceAllString(text, "${1}(hidden)")
		case 3:
			text = form.ReplaceAllString(text, "${1}(hidden)@")
		default:
			text = form.ReplaceAllString(text, "(hidden)")
		}
	}
	return text
}
