package controller

import (
	"errors"
	"fmt"
	"net/http"
)

// A Route is the program's own HTTP handler at [Options].Address. Every replica calls it.
// The limits of the port hold for it. An answer may take 30 seconds, unless the handler
// sets other deadlines with an [http.ResponseController]. In controller-runtime the
// ExtraHandlers of the metrics server are like it.
type Route struct {
	// Pattern is a pattern of [http.ServeMux], such as "GET /queue/{name}".
	Pattern string
	Handler http.Handler
	// Authorize makes requests show a token, as [Options].Authorize does for metrics.
	Authorize bool
	// MaxBody is the number of bytes that the body of a request may have. Reading more
	// fails. Default: that of the Options.
	MaxBody int64
}

func (r Route) validate() error {
	switch {
	case r.Pattern == "":
		return errors.New("serve route: the pattern is missing")
	case isNil(r.Handler):
		return fmt.Errorf("serve route %q: the handler is missing", r.Pattern)
	case r.MaxBody < 0:
		return fmt.Errorf("serve route %q: MaxBody is negative", r.Pattern)
	}
	return nil
}
