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

// Audit records the rights that the requests of an operator need. Use it in a test in
// which the operator does everything that it can do:
//
//	var used manifest.Audit
//	config.Wrap(used.Wrap)
//	…
//	if err := used.Compare(op); err != nil {
//		t.Error(err)
//	}
//
// The zero value is ready for use. Any goroutine may call the methods.
type Audit struct {
	mu      sync.Mutex
	used    map[grant]bool
	blocks  bool // a request may have set blockOwnerDeletion
	refused []string
}

// Wrap returns a transport that records its requests and sends them through next.
func (r *Audit) Wrap(next http.RoundTripper) http.RoundTripper { return recording{r, next} }

type recording struct {
	*Audit
	next http.RoundTripper
}

// WrappedRoundTripper lets net/http close idle connections.
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
		// An apply that creates an object needs the right to create too.
		r.used[grant{namespace: g.namespace, group: g.group, resource: g.resource, verb: "create"}] = true
	}
	if resp != nil && resp.StatusCode == http.StatusForbidden {
		r.refused = append(r.refused, g.String())
	}
	return resp, err
}

// Refused returns the requests that the API server refused, in the words of
// [Audit.Compare].
func (r *Audit) Refused() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(r.refused)))
}

// Compare returns an error that names two sorts of rights: those that requests needed and
// the operator does not get, and those of Needs and Controllers that no request needed. The
// rights that follow from Options, such as those for a Lease and for events, may be unused:
// only a process that waits for the lease watches it. So may the right to take a status over.
func (r *Audit) Compare(o Operator) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	given, err := grants(o.needs(), o.Definitions)
	if err != nil {
		return err
	}
	regular := o.declared()
	for i, rules := range regular {
		regular[i] = slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return r.once })
	}
	declared, err := grants(regular, o.Definitions)
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
	sortGrants(missing)
	for _, g := range missing {
		wrong = append(wrong, fmt.Errorf("missing: the right to %s", g))
	}
	for _, have := range declared {
		if strings.HasSuffix(have.resource, "/finalizers") && r.blocks {
			continue // admission checks this right; no request names it
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

// String describes a grant: "patch deployments.apps web in default".
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

// grantFor returns the right that a request needs, as the API server derives it. It
// returns false if the request is not about a resource. Discovery is such a request:
// everybody may send it.
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
	// A namespace is an object, and also the beginning of other objects' paths.
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

// blocksOwner reports whether a request may set blockOwnerDeletion. A body that is not
// JSON cannot be read, so it counts as one that may.
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
