package controller

import (
	"errors"
	"fmt"
	"net/http"
)

// A Route is an HTTP handler of the program's own, at [Options].Address. It is
// called in every replica. The limits of the port hold for it: an answer may take
// 30 seconds, unless the handler sets other deadlines with an
// [http.ResponseController], and the body of a request may have Options.MaxBody.
type Route struct {
	// Pattern is one of [http.ServeMux], such as "GET /queue/{name}".
	Pattern string
	Handler http.Handler
	// Authorize has requests show a token, as [Options].Authorize says of metrics.
	Authorize bool
}

func (r Route) validate() error {
	switch {
	case r.Pattern == "":
		return errors.New("serve route: the pattern is missing")
	case r.Handler == nil:
		return fmt.Errorf("serve route %q: the handler is missing", r.Pattern)
	}
	return nil
}
