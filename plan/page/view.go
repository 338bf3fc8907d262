package page

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// view is the JSON that the browser gets.
type view struct {
	Kind   string `json:"kind"`
	Owners []row  `json:"owners"`
	// More counts the owners that are left out.
	More int `json:"more,omitempty"`
	// Trouble says why the view may be out of date.
	Trouble string `json:"trouble,omitempty"`
	// Owner is the chosen owner, nil if it is not there.
	Owner *owner `json:"owner,omitempty"`
}

// row is an owner in the list.
type row struct {
	Key     string      `json:"key"` // namespace/name
	State   plan.State  `json:"state"`
	Ready   string      `json:"ready"` // as in 3/5
	Summary string      `json:"summary"`
	Since   metav1.Time `json:"since,omitzero"`
}

// owner is the chosen owner.
type owner struct {
	row
	Nodes  []node `json:"nodes"`
	Turns  []turn `json:"turns"`
	Failed []turn `json:"failed"`
}

// node is a node of the chosen owner.
type node struct {
	Name    string      `json:"name"`
	State   plan.State  `json:"state"`
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since,omitzero"`
	Object  string      `json:"object,omitempty"` // as in Service default/web
	Outside bool        `json:"outside,omitempty"`
	Needs   []string    `json:"needs"`
}

const (
	// pollTime is how long a request waits for a change. The port cuts answers off after
	// 30 seconds.
	pollTime = 20 * time.Second
	// gather is how long changes are gathered for one answer.
	gather = 200 * time.Millisecond
	// maxRows is how many owners the list has.
	maxRows = 500
)

// question is a request of the browser.
type question struct {
	owner   kube.Key // the chosen one
	find    string   // in lower case; owners without it are left out
	version string   // of the view that the browser has; empty: it has none
}

func asked(r *http.Request) (q question) {
	q.owner.Namespace, q.owner.Name, _ = strings.Cut(r.FormValue("owner"), "/")
	q.find, q.version = strings.ToLower(r.FormValue("find")), r.FormValue("version")
	return q
}

// data answers with a view as soon as it differs from the one that the browser has. If it
// stays the same for some time, the answer is empty, with status 204.
func (p *Page[T]) data(w http.ResponseWriter, r *http.Request) {
	guarded(w, "application/json")
	w.Header().Set("Cache-Control", "no-store")
	select {
	case p.viewers <- struct{}{}:
		defer func() { <-p.viewers }()
	default:
		unavailable(w, "too many browsers follow the plans")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pollTime)
	defer cancel()
	if _, err := p.owners.ReadOnly().Cached().Get(ctx, ""); errors.Is(err, kube.ErrNotCached) {
		unavailable(w, "the controller has not started") // the page must not start a store of its own
		return
	}
	body, version, err := p.await(ctx, asked(r))
	switch {
	case err != nil:
		unavailable(w, err.Error())
	case body == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("ETag", `"`+version+`"`)
		_, _ = w.Write(body) // the browser may be gone
	}
}

// unavailable asks the browser to come again.
func unavailable(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, why, http.StatusServiceUnavailable)
}

// await returns a view that differs from the browser's, nil if there is none before ctx
// ends.
func (p *Page[T]) await(ctx context.Context, q question) (body []byte, version string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	informer := p.owners.Open(ctx)
	changes := make(chan kube.Change)
	var following sync.WaitGroup
	following.Go(func() {
		defer close(changes)
		for c := range informer.Changes(ctx) {
			select {
			case changes <- c:
			case <-ctx.Done():
				return
			}
		}
	})
	defer informer.Close()
	defer following.Wait()
	defer cancel()

	l := &look[T]{page: p, question: q, rows: make(map[kube.Key]row)}
	added := p.recent.next()
	var due <-chan time.Time // nil: there is nothing to tell
	for synced := false; ; {
		select {
		case c, more := <-changes:
			switch {
			case !more && ctx.Err() == nil:
				return nil, "", errors.New("the controller has stopped")
			case !more && !synced:
				return nil, "", fmt.Errorf("the owners are not known yet: %w", cmp.Or(informer.Trouble(), context.Cause(ctx)))
			case !more:
				return nil, "", nil
			case c.Type == kube.Synced:
				p.prune(l.uids)
				synced, due = true, time.After(0)
			default:
				l.take(c)
				if synced && due == nil {
					due = time.After(gather)
				}
			}
		case <-added: // a reconcile has ended
			added = p.recent.next()
			if synced && due == nil {
				due = time.After(gather)
			}
		case <-due:
			due = nil
			if body, version, err := l.encode(informer.Trouble()); err != nil || version != q.version {
				return body, version, err
			}
		}
	}
}

// look is what a request has seen of the owners.
type look[T any] struct {
	page *Page[T]
	question
	rows   map[kube.Key]row
	uids   []types.UID
	chosen kube.Change // its Key is empty if the chosen owner is not there
}

// take takes a change of an owner.
func (l *look[T]) take(c kube.Change) {
	switch {
	case c.Type == kube.Deleted:
		delete(l.rows, c.Key)
		l.page.recent.forget(c.UID())
		if c.Key == l.owner {
			l.chosen = kube.Change{}
		}
		return
	case c.Key == l.owner:
		l.chosen = c
	}
	l.rows[c.Key] = l.page.row(c)
	l.uids = append(l.uids, c.UID())
}

// knownRow is the row of a version of an owner.
type knownRow struct {
	version string
	row     row
}

// row returns an owner's row. An owner is not decoded again for each request.
func (p *Page[T]) row(c kube.Change) row {
	p.mu.Lock()
	known, ok := p.rows[c.UID()]
	p.mu.Unlock()
	if ok && known.version == c.ResourceVersion() {
		return known.row
	}
	known = knownRow{c.ResourceVersion(), p.describe(c).row}
	p.mu.Lock()
	p.rows[c.UID()] = known
	p.mu.Unlock()
	return known.row
}

// prune forgets the rows of owners that are gone.
func (p *Page[T]) prune(there []types.UID) {
	is := make(map[types.UID]bool, len(there))
	for _, uid := range there {
		is[uid] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.rows, func(uid types.UID, _ knownRow) bool { return !is[uid] })
}

// describe decodes an owner.
func (p *Page[T]) describe(c kube.Change) *owner {
	o := &owner{row: row{Key: c.Key.Namespace + "/" + c.Key.Name}, Nodes: []node{}, Turns: []turn{}, Failed: []turn{}}
	is, err := kube.DecodeNow[T](c)
	if err != nil {
		o.State, o.Summary = plan.Failed, short(err.Error())
		return o
	}
	s := p.status(is)
	o.State, o.Ready, o.Summary, o.Since = s.State(), s.ReadyNodes, s.Summary, s.Since
	for _, n := range s.Nodes {
		shown := node{
			Name: n.Name, State: n.State, Message: n.Message, Since: n.Since,
			Outside: n.Thing != nil, Needs: append([]string{}, n.Needs...),
		}
		if n.ObjectName != "" {
			shown.Object = strings.TrimSpace(n.Kind + " " + strings.TrimPrefix(n.Namespace+"/"+n.ObjectName, "/"))
		}
		o.Nodes = append(o.Nodes, shown)
	}
	return o
}

// encode returns the view, and a hash of it.
func (l *look[T]) encode(trouble error) (body []byte, version string, err error) {
	v := view{Kind: l.page.owners.Kind().Kind, Owners: []row{}}
	if trouble != nil {
		v.Trouble = short(trouble.Error())
	}
	for _, r := range l.rows {
		if strings.Contains(strings.ToLower(r.Key+" "+string(r.State)+" "+r.Summary), l.find) {
			v.Owners = append(v.Owners, r)
		}
	}
	slices.SortFunc(v.Owners, func(a, b row) int { return strings.Compare(a.Key, b.Key) })
	v.More = max(0, len(v.Owners)-maxRows)
	v.Owners = v.Owners[:len(v.Owners)-v.More]
	if l.chosen.Key.Name != "" {
		v.Owner = l.page.describe(l.chosen)
		turns, failed := l.page.recent.last(l.chosen.UID())
		v.Owner.Turns, v.Owner.Failed = append(v.Owner.Turns, turns...), append(v.Owner.Failed, failed...)
	}
	body, err = json.Marshal(v)
	if err != nil {
		return nil, "", fmt.Errorf("encode owners: %w", err)
	}
	sum := sha256.Sum256(body)
	return body, hex.EncodeToString(sum[:8]), nil
}
