// Package wire is the HTTP that the stand-ins for Neon's programs share: answers and errors in
// upstream's form, the check of scopes, faults, and a record of the requests. It is no
// part of Neon.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// Name is the Server header of all answers, so that nobody takes a stand-in for Neon.
const Name = "pintle-neon-standin"

// Answer is a successful answer. A nil body is null, and no body at all with status 204.
type Answer struct {
	Status int
	Body   any
}

// OK is the answer 200 with a body.
func OK(body any) Answer { return Answer{http.StatusOK, body} }

// Error is an answer other than success, in upstream's form {"msg"}.
type Error struct {
	Status int
	Msg    string
}

func (e *Error) Error() string { return e.Msg }

// Errorf returns the error with a status and a message.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{Status: status, Msg: fmt.Sprintf(format, args...)}
}

// NotFound is a 404 with upstream's prefix.
func NotFound(format string, args ...any) *Error {
	return Errorf(http.StatusNotFound, "NotFound: "+format, args...)
}

// Conflict is a 409 with upstream's prefix.
func Conflict(format string, args ...any) *Error {
	return Errorf(http.StatusConflict, "Conflict: "+format, args...)
}

// Precondition is a 412 with upstream's prefix.
func Precondition(format string, args ...any) *Error {
	return Errorf(http.StatusPreconditionFailed, "Precondition failed: "+format, args...)
}

// BadRequest is a 400. Upstream prints the message as a quoted string.
func BadRequest(format string, args ...any) *Error {
	return Errorf(http.StatusBadRequest, "%q", fmt.Sprintf(format, args...))
}

// Handler answers a request.
type Handler func(*http.Request) (Answer, error)

func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := h(r)
	if err != nil {
		var known *Error
		if !errors.As(err, &known) {
			known = Errorf(http.StatusInternalServerError, "%v", err)
		}
		answer = Answer{known.Status, map[string]string{"msg": known.Msg}}
	}
	Write(w, answer)
}

// Write sends an answer.
func Write(w http.ResponseWriter, a Answer) {
	if raw, ok := a.Body.(Raw); ok {
		w.Header().Set("Content-Type", raw.Type)
		w.WriteHeader(a.Status)
		_, _ = w.Write(raw.Content) // the client may be gone
		return
	}
	if a.Status == http.StatusNoContent {
		w.WriteHeader(a.Status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	text, err := json.Marshal(a.Body)
	if err != nil {
		panic(fmt.Sprintf("encode answer: %v", err)) // the stand-ins' types can be encoded
	}
	_, _ = w.Write(text) // the client may be gone
}

// Raw is a body that is not JSON.
type Raw struct {
	Type    string
	Content []byte
}

// Auth checks tokens. Its zero value allows all, as Neon's programs do without a key.
type Auth struct {
	Key *token.Public
}

// Check returns nil if the request's token has one of the scopes, or is that of the tenant. No
// tenant is "".
func (a Auth) Check(r *http.Request, tenant string, scopes ...token.Scope) error {
	if a.Key == nil {
		return nil
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return Errorf(http.StatusUnauthorized, "Unauthorized: missing authorization header")
	}
	claims, err := a.Key.Verify(strings.TrimPrefix(header, "Bearer "))
	if err == nil {
		if slices.Contains(scopes, claims.Scope) {
			return nil
		}
		if tenant != "" && claims.Scope == token.Tenant && claims.TenantID == tenant {
			return nil
		}
	}
	return Errorf(http.StatusForbidden, "Forbidden: JWT authentication error")
}

const largestRequest = 16 << 20

var unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)

// Decode reads the JSON of a request. Unknown fields are errors, as upstream has it for most
// requests.
func Decode(r *http.Request, into any) error {
	text, err := io.ReadAll(io.LimitReader(r.Body, largestRequest))
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		reason := err.Error()
		if match := unknownField.FindStringSubmatch(reason); match != nil {
			reason = "unknown field `" + match[1] + "`"
		}
		return BadRequest("Failed to parse json request: %s at line 1 column %d", strings.TrimPrefix(reason, "json: "), len(text))
	}
	return nil
}

var idForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// CheckID returns an error unless text is an ID of a tenant or a timeline.
func CheckID(text string) error {
	if !idForm.MatchString(text) {
		return BadRequest("failed to convert an id: %s", text)
	}
	return nil
}
