package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// discovery finds plurals and scopes, by one request per group-version. It keeps its
// findings until the server answers 404, or until a scope that it has found does not fit a
// request: the kind may have been installed again with the other scope. It does not keep
// the finding that a kind is missing, because a kind may be installed at any time.
type discovery struct {
	client *Client
	mu     sync.Mutex
	known  map[schema.GroupVersion]map[string]served
	asking map[schema.GroupVersion]*inquiry
}

type served struct {
	plural string
	scope  Scope
}

// discoveredAfter holds the waits before discovery asks again for a missing kind. The
// server lists a custom kind some milliseconds after its definition has become
// Established. Programs wait for Established before they use a kind.
var discoveredAfter = [...]time.Duration{50 * time.Millisecond, 250 * time.Millisecond}

// inquiry is a discovery request under way. Its maker sets all fields but done before it
// closes done.
type inquiry struct {
	done  chan struct{}
	kinds map[string]served
	err   error
	// abandoned is set if the context of the inquiry's maker ended, or if the maker's
	// trace broke the request off.
	abandoned bool
}

// resolve fills in the plural and the scope of a kind.
func (d *discovery) resolve(ctx context.Context, kind Kind) (Kind, error) {
	if kind.Plural != "" && kind.Scope != "" {
		return kind, nil
	}
	found, ok, err := d.find(ctx, kind.GVK)
	for _, wait := range discoveredAfter {
		if err != nil || ok {
			break
		}
		if err = sleep(ctx, wait); err == nil {
			found, ok, err = d.find(ctx, kind.GVK)
		}
	}
	switch {
	case err != nil:
		return kind, err
	case !ok:
		return kind, notServed(kind.GVK, kind.Plural)
	}
	kind.Plural, kind.Scope = cmp.Or(kind.Plural, found.plural), cmp.Or(kind.Scope, found.scope)
	return kind, nil
}

// resolveFor is resolve for a request that fits returns an error for if the kind has the
// wrong scope. Before it returns such an error because of an earlier finding, it asks the
// server again.
func (d *discovery) resolveFor(ctx context.Context, kind Kind, fits func(Kind) error) (Kind, error) {
	known := d.learned(kind).Scope
	found, err := d.resolve(ctx, kind)
	if err != nil {
		return kind, err
	}
	err = fits(found)
	if err == nil || kind.Scope != "" || known != found.Scope {
		return found, err
	}
	d.forget(kind.GroupVersion())
	if found, err = d.resolve(ctx, kind); err != nil {
		return kind, err
	}
	return found, fits(found)
}

// learned fills in the plural and the scope of a kind, if they are known without a request.
func (d *discovery) learned(kind Kind) Kind {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.known[kind.GroupVersion()][kind.Kind]
	kind.Plural, kind.Scope = cmp.Or(kind.Plural, found.plural), cmp.Or(kind.Scope, found.scope)
	return kind
}

// find returns a known kind, or asks the server for it. Callers that ask for the same
// group-version at the same time share a request.
func (d *discovery) find(ctx context.Context, gvk GVK) (served, bool, error) {
	for joined := 0; ; joined++ {
		found, ok, q, mine := d.look(gvk)
		if ok {
			return found, true, nil
		}
		if mine {
			d.ask(ctx, gvk.GroupVersion(), q)
		}
		select {
		case <-q.done:
		case <-ctx.Done():
			return served{}, false, context.Cause(ctx)
		}
		switch found, ok = q.kinds[gvk.Kind]; {
		case ok:
			return found, true, nil
		case mine:
			return served{}, false, q.err
		case q.abandoned:
			joined-- // the failure of an abandoned inquiry says nothing of the server
		case q.err != nil, joined > 0:
			return served{}, false, q.err
		}
		// The first request that was joined had begun before this call. The kind may have
		// been installed in between.
	}
}

// look returns a kind if it is known. Otherwise it returns the inquiry under way. If
// there is none, it returns a new inquiry, and the caller has to make the request.
func (d *discovery) look(gvk GVK) (found served, ok bool, q *inquiry, mine bool) {
	gv := gvk.GroupVersion()
	d.mu.Lock()
	defer d.mu.Unlock()
	if found, ok = d.known[gv][gvk.Kind]; ok {
		return found, true, nil, false
	}
	if q = d.asking[gv]; q != nil {
		return served{}, false, q, false
	}
	q = &inquiry{done: make(chan struct{})}
	if d.asking == nil {
		d.asking = make(map[schema.GroupVersion]*inquiry)
	}
	d.asking[gv] = q
	return served{}, false, q, true
}

// ask makes an inquiry and keeps the findings. The caller's trace may break an inquiry
// off, by a panic or by the end of the goroutine. Such an inquiry is abandoned, because
// others wait for it.
func (d *discovery) ask(ctx context.Context, gv schema.GroupVersion, q *inquiry) {
	q.abandoned = true
	defer d.end(gv, q)
	q.kinds, q.err = d.request(ctx, gv)
	q.abandoned = q.err != nil && ctx.Err() != nil
}

// end ends an inquiry.
func (d *discovery) end(gv schema.GroupVersion, q *inquiry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.err == nil && !q.abandoned {
		if d.known == nil {
			d.known = make(map[schema.GroupVersion]map[string]served)
		}
		d.known[gv] = q.kinds
	}
	delete(d.asking, gv)
	close(q.done)
}

// forget drops the findings about a group-version, because the server answered 404.
func (d *discovery) forget(gv schema.GroupVersion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, gv)
}

func (d *discovery) request(ctx context.Context, gv schema.GroupVersion) (map[string]served, error) {
	r := &request{verb: "discover", method: http.MethodGet, path: groupVersionPath(gv), accept: wire.TypeJSON,
		resource: Kind{GVK: gv.WithKind(gv.String())}}
	body, _, err := d.client.roundTrip(ctx, r)
	var serr interface{ Status() metav1.Status }
	if errors.As(err, &serr) && serr.Status().Code == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, r.wrap(err)
	}
	kinds := make(map[string]served, len(list.APIResources))
	for _, res := range list.APIResources {
		if strings.Contains(res.Name, "/") {
			continue // a subresource
		}
		scope := ClusterScoped
		if res.Namespaced {
			scope = Namespaced
		}
		kinds[res.Kind] = served{res.Name, scope}
	}
	return kinds, nil
}
