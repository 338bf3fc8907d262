package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discovery finds plurals and scopes, one request per group-version, kept.
type discovery struct {
	client *Client
	mu     sync.Mutex
	known  map[schema.GroupVersion]map[string]served
	asked  map[schema.GroupVersion]time.Time
}

type served struct {
	plural string
	scope  Scope
}

// askAgainAfter bounds how often a group-version that lacks a kind is asked
// for, however many callers wait for the kind.
const askAgainAfter = time.Second

// resolve fills in the plural and the scope of a kind.
func (d *discovery) resolve(ctx context.Context, kind Kind) (Kind, error) {
	if kind.Plural != "" && kind.Scope != "" {
		return kind, nil
	}
	gv := kind.GroupVersion()
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.known[gv][kind.Kind]
	if !ok && time.Since(d.asked[gv]) > askAgainAfter {
		kinds, err := d.ask(ctx, gv)
		if err != nil {
			return kind, err
		}
		if d.known == nil {
			d.known = make(map[schema.GroupVersion]map[string]served)
			d.asked = make(map[schema.GroupVersion]time.Time)
		}
		d.known[gv], d.asked[gv] = kinds, time.Now()
		found, ok = kinds[kind.Kind]
	}
	if !ok {
		return kind, notServed(kind.GVK, kind.Plural)
	}
	if kind.Plural == "" {
		kind.Plural = found.plural
	}
	if kind.Scope == "" {
		kind.Scope = found.scope
	}
	return kind, nil
}

// forget drops what is known of a group-version: the server said 404.
func (d *discovery) forget(gv schema.GroupVersion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, gv)
}

func (d *discovery) ask(ctx context.Context, gv schema.GroupVersion) (map[string]served, error) {
	r := &request{verb: "discover", method: http.MethodGet, path: groupVersionPath(gv), accept: typeJSON,
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
	if err := json.Unmarshal(body, &list, decodeOptions); err != nil {
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
