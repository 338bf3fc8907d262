package webhooktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pintle-go/pintle/internal/threeway"
)

// twice returns a handler of hooks that calls each mutation a second time, with the object that the
// first call made. The API server does so if another hook changed the object in between. If the second call
// changes the object again, or refuses it, the test fails: a sidecar would be there twice. The answer is the
// first one.
func twice(t testing.TB, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		first := ask(h, r, body)
		if err := again(h, r, body, first.Body.Bytes()); err != nil {
			t.Errorf("webhooktest: the second call of %s %v", r.URL.Path, err)
		}
		for name, values := range first.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(first.Code)
		_, _ = w.Write(first.Body.Bytes())
	})
}

func ask(h http.Handler, r *http.Request, body []byte) *httptest.ResponseRecorder {
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// answer has the fields of a review that matter here.
type answer struct {
	Response struct {
		Allowed bool   `json:"allowed"`
		Patch   []byte `json:"patch"`
		Status  struct {
			Message string `json:"message"`
		} `json:"status"`
	} `json:"response"`
}

// again sends a request with the object that the first answer makes.
func again(h http.Handler, r *http.Request, body, first []byte) error {
	var was, is answer
	if !json.Valid(first) {
		return nil // a text that refuses
	}
	if err := json.Unmarshal(first, &was); err != nil {
		return err
	}
	if len(was.Response.Patch) == 0 {
		return nil
	}
	var review, request map[string]json.RawMessage
	if err := json.Unmarshal(body, &review); err != nil {
		return err
	}
	if err := json.Unmarshal(review["request"], &request); err != nil {
		return err
	}
	object, err := threeway.ApplyJSONPatch(request["object"], was.Response.Patch)
	if err != nil {
		return err
	}
	request["object"] = object
	if review["request"], err = json.Marshal(request); err != nil {
		return err
	}
	if body, err = json.Marshal(review); err != nil {
		return err
	}
	if err := json.Unmarshal(ask(h, r, body).Body.Bytes(), &is); err != nil {
		return fmt.Errorf("answers no review: %w", err)
	}
	switch {
	case !is.Response.Allowed:
		return fmt.Errorf("refuses: %s", is.Response.Status.Message)
	case len(is.Response.Patch) > 0:
		return fmt.Errorf("changes the object again: first %s, then %s", was.Response.Patch, is.Response.Patch)
	}
	return nil
}
