package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
)

// Audit notes which rights requests need, in a test that has an operator do
// all that it does:
//
//	var used manifest.Audit
//	config.Wrap(used.Wrap)
//	…
//	if err := used.Compare(op); err != nil {
//		t.Error(err)
//	}
//
// Its zero value is ready; its methods may be called from any goroutine.
type Audit struct {
	mu      sync.Mutex
	used    map[grant]bool
	blocks  bool // an owner was made to wait for what it owns
	refused []string
}

// Wrap returns a transport whose requests are noted.
func (r *Audit) Wrap(next http.RoundTripper) http.RoundTripper { return recording{r, next} }

type recording struct {
	*Audit
	next http.RoundTripper
}

// WrappedRoundTripper lets idle connections be closed.
func (r recording) WrappedRoundTripper() http.RoundTripper { return r.next }

func (r recording) RoundTrip(req *http.Request) (*http.Response, error) {
	g, ok := grantFor(req.Method, req.URL)
	blocks := ok && blocksOwner(req)
	resp, err := r.next.RoundTrip(req)
	if !ok {
		return resp, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil {
		r.used = make(map[grant]bool)
	}
	r.used[g] = true
	r.blocks = r.blocks || blocks
	if resp != nil && resp.StatusCode == http.StatusCreated && g.verb == "patch" {
		// An apply that creates needs the right to that too.
		r.used[grant{namespace: g.namespace, group: g.group, resource: g.resource, verb: "create"}] = true
	}
	if resp != nil && resp.StatusCode == http.StatusForbidden {
		r.refused = append(r.refused, g.String())
	}
	return resp, err
}

// Refused returns what was asked for and is not allowed, in the words of
// [Audit.Compare].
func (r *Audit) Refused() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(r.refused)))
}

// Compare returns an error that names the rights that were needed and that the
// operator does not get, and those that it gets and were not needed.
func (r *Audit) Compare(o Operator) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	given, err := grants(o.needs(), o.Definitions)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var wrong []error
	var missing []grant
	for g := range r.used {
		if !slices.ContainsFunc(given, func(have grant) bool { return have.covers(g) }) {
			missing = append(missing, g)
		}
	}
	slices.SortFunc(missing, compareGrants)
	for _, g := range missing {
		wrong = append(wrong, fmt.Errorf("missing: the right to %s", g))
	}
	for _, have := range given {
		if strings.HasSuffix(have.resource, "/finalizers") && r.blocks {
			continue // asked about by admission, not by request
		}
		needed := false
		for g := range r.used {
			needed = needed || have.covers(g)
		}
		if !needed {
			wrong = append(wrong, fmt.Errorf("superfluous: the right to %s", have))
		}
	}
	return errors.Join(wrong...)
}

// String says what a grant allows: "patch deployments.apps web in default".
func (g grant) String() string {
	s := g.verb + " " + g.resource
	if g.group != "" {
		s += "." + g.group
	}
	if g.name != "" {
		s += " " + g.name
	}
	if g.namespace != "" {
		s += " in " + g.namespace
	}
	return s
}

// grantFor returns what a request needs, as the API server works it out; false if
// it is not about a resource, as discovery, which all may do.
func grantFor(method string, u *url.URL) (grant, bool) {
	segments := strings.Split(strings.Trim(u.Path, "/"), "/")
	var g grant
	switch {
	case segments[0] == "api" && len(segments) > 2:
		segments = segments[2:]
	case segments[0] == "apis" && len(segments) > 3:
		g.group = segments[1]
		segments = segments[3:]
	default:
		return g, false
	}
	// A namespace is a path that others begin with, and an object.
	if segments[0] == "namespaces" && len(segments) > 2 && !slices.Contains([]string{"status", "finalize"}, segments[2]) {
		g.namespace = segments[1]
		segments = segments[2:]
	}
	g.resource = segments[0]
	if len(segments) > 1 {
		g.name = segments[1]
	}
	if len(segments) > 2 {
		g.resource += "/" + segments[2]
	}
	query := u.Query()
	switch method {
	case http.MethodGet, http.MethodHead:
		switch watch := query.Get("watch"); {
		case watch == "true" || watch == "1":
			g.verb = "watch"
		case g.name == "":
			g.verb = "list"
		default:
			g.verb = "get"
		}
	case http.MethodPost:
		g.verb = "create"
	case http.MethodPut:
		g.verb = "update"
	case http.MethodPatch:
		g.verb = "patch"
	case http.MethodDelete:
		if g.verb = "delete"; g.name == "" {
			g.verb = "deletecollection"
		}
	}
	if g.name == "" && g.verb != "create" {
		if selector, err := fields.ParseSelector(query.Get("fieldSelector")); err == nil {
			g.name, _ = selector.RequiresExactMatch("metadata.name")
		}
	}
	return g, true
}

// blocksOwner reports that a request may set blockOwnerDeletion: of what is not
// JSON, that it cannot be told.
func blocksOwner(req *http.Request) bool {
	if req.GetBody == nil || req.Method == http.MethodGet || req.Method == http.MethodDelete {
		return false
	}
	if strings.HasSuffix(req.Header.Get("Content-Type"), "protobuf") {
		return true
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return err == nil && bytes.Contains(data, []byte(`"blockOwnerDeletion":true`))
}
