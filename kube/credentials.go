package kube

import (
	"net/http"
	"os"
	"strings"
)

// renew reports whether a request that was answered 401 may succeed if it is
// repeated. client-go has run the exec plugin again by then; a token's file it
// reads every minute and not for a 401, so that is done here.
func (c *Client) renew(r *request) bool {
	if file := c.config.BearerTokenFile; file != "" {
		token, err := os.ReadFile(file)
		r.authorization = "Bearer " + strings.TrimSpace(string(token))
		return err == nil
	}
	return c.config.ExecProvider != nil || c.config.AuthProvider != nil
}

// impatient leaves a request whose context ends while an exec plugin still
// runs, which client-go waits for. The plugin goes on, for the next request.
type impatient struct{ next http.RoundTripper }

func (i impatient) RoundTrip(req *http.Request) (*http.Response, error) {
	type answer struct {
		resp *http.Response
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		resp, err := i.next.RoundTrip(req) //nolint:bodyclose // whoever takes the answer closes it
		answers <- answer{resp, err}
	}()
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-req.Context().Done():
		go func() {
			if a := <-answers; a.err == nil {
				a.resp.Body.Close()
			}
		}()
		return nil, req.Context().Err()
	}
}

// WrappedRoundTripper lets idle connections be closed.
func (i impatient) WrappedRoundTripper() http.RoundTripper { return i.next }
