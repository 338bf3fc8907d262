package kube

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// If the watch does not show a write in time, the server is asked about it once. The
// answer is remembered with the write until the watch has come as far. Readers that come
// while the question is on its way wait for its answer. So an overloaded server, whose
// watches are late, gets no more questions than there are writes.

// reply is the server's state of an object. The entry is nil if the table's handle had no
// such object on the server.
type reply struct{ entry *entry }

// question is a question to the server that one reader asks for all readers.
type question struct {
	done   chan struct{}
	answer reply
	err    error
	// left: the question has to be asked again. The reader that asked has gone, or was
	// broken off, before the answer came. Or the answer was older than least, and the
	// write is not pending any more.
	left bool
	// least is the version that the object had at the time of the question, as far as this
	// process knew.
	least string
}

// askedEach is the largest number of objects that are read from the server one by one.
const askedEach = 16

// ask returns the server's state of objects whose writes the watch does not show in time.
// It also returns the errors of the questions that failed.
func (t *table) ask(ctx context.Context, keys []Key) (found []keyed, errs []error) {
	for len(keys) > 0 {
		mine, others, settled := t.questions(keys, &found)
		for _, key := range settled {
			if e, at, _, _ := t.peek(key); e != nil {
				found = append(found, keyed{at, e})
			}
		}
		t.askAll(ctx, mine)
		keys = nil
		for key, q := range mine {
			if q.left && ctx.Err() == nil {
				keys = append(keys, key)
				continue
			}
			found, errs = q.take(key, found, errs)
		}
		for key, q := range others {
			select {
			case <-q.done:
			case <-ctx.Done():
				return found, append(errs, context.Cause(ctx))
			}
			if q.left {
				keys = append(keys, key) // another reader has to ask
				continue
			}
			found, errs = q.take(key, found, errs)
		}
	}
	return found, errs
}

func (q *question) take(key Key, found []keyed, errs []error) ([]keyed, []error) {
	switch {
	case q.err != nil:
		errs = append(errs, q.err)
	case q.answer.entry != nil:
		found = append(found, keyed{key, q.answer.entry})
	}
	return found, errs
}

// questions sorts keys into three groups: keys that the caller has to ask about, keys
// that others have asked about, and keys whose writes are settled. It adds the answers
// that are there already to found.
func (t *table) questions(keys []Key, found *[]keyed) (mine, others map[Key]*question, settled []Key) {
	mine, others = make(map[Key]*question), make(map[Key]*question)
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	for _, key := range keys {
		w, pending := t.own.pending[key]
		switch {
		case !pending || w.hidden:
			settled = append(settled, key)
		case w.answer != nil:
			if w.answer.entry != nil {
				*found = append(*found, keyed{key, w.answer.entry})
			}
		case w.question != nil:
			others[key] = w.question
		default:
			w.question = &question{done: make(chan struct{}), least: w.least(t.entry(key))}
			t.own.pending[key] = w
			mine[key] = w.question
		}
	}
	return mine, others, settled
}

// least returns the latest known version of the written object. Its entry in the table is
// e.
func (w ownWrite) least(e *entry) (rv string) {
	rv = w.rv
	for _, known := range []*entry{w.last, e} {
		if known != nil && (rv == "" || versions.Older(rv, known.ResourceVersion())) {
			rv = known.ResourceVersion()
		}
	}
	return rv
}

// tooOld returns an error for an answer from before the question, as a lagging server
// gives it.
func (q *question) tooOld(found *fetched) error {
	version := found.rv
	if found.entry != nil {
		version = found.entry.ResourceVersion()
	}
	if !versions.Older(version, q.least) {
		return nil
	}
	return fmt.Errorf("%w: resource version %s after %s", errStale, version, q.least)
}

// askAll asks the server questions. The reader's trace may break that off, by a panic or
// by the end of the goroutine. Then another reader that waits for the answers has to ask.
func (t *table) askAll(ctx context.Context, asked map[Key]*question) {
	defer func() {
		for key, q := range asked {
			t.giveUp(key, q)
		}
	}()
	t.answerAll(ctx, asked)
}

// giveUp ends a question that has not been answered.
func (t *table) giveUp(key Key, q *question) {
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	select {
	case <-q.done:
		return
	default:
	}
	if w, pending := t.own.pending[key]; pending && w.question == q {
		w.question = nil
		t.own.pending[key] = w
	}
	q.left = true
	close(q.done)
}

// answerAll asks the server, either one by one or by a list.
func (t *table) answerAll(ctx context.Context, asked map[Key]*question) {
	before := make(map[Key]*entry, len(asked))
	for key := range asked {
		before[key] = t.entry(key)
	}
	sel := t.handle.selector
	// A list may lack an object that exists, because a selector does not match it.
	if len(asked) > askedEach && sel.label == "" && sel.field == "" {
		listed := make(map[Key]*fetched, len(asked))
		for key := range asked {
			listed[key] = new(fetched)
		}
		err := t.fetchFrom(ctx, t.handle, listed)
		for key, q := range asked {
			t.answer(ctx, key, q, before[key], listed[key], err)
		}
		return
	}
	for key, q := range asked {
		found, err := t.fetch(ctx, key)
		t.answer(ctx, key, q, before[key], found, err)
	}
}

// answer notes the server's answer for an object whose write was pending. Before is its
// entry at the time of the question.
func (t *table) answer(ctx context.Context, key Key, q *question, before *entry, found *fetched, err error) {
	t.settled(t.noteAnswer(ctx, key, q, before, found, cmp.Or(err, found.err)), nil)
}

// noteAnswer does the work of answer. It returns the write if its object is gone and was
// never in the content.
func (t *table) noteAnswer(
	ctx context.Context, key Key, q *question, before *entry, found *fetched, err error,
) (vanished []settledWrite) {
	is, sel := found.entry, t.handle.selector
	// A list by the field selector asked for the objects that the selector matches.
	fits := is != nil && (sel.field != "" || sel.labels == nil || sel.labels.Matches(is.Labels()))
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	defer close(q.done)
	w, pending := t.own.pending[key]
	asked := pending && w.question == q
	if asked {
		w.question = nil
		t.own.pending[key] = w
	}
	if err != nil {
		q.err, q.left = err, ctx.Err() != nil
		return nil
	}
	if q.err = q.tooOld(found); q.err != nil {
		q.left = !asked
		return nil
	}
	e := t.entry(key)
	moved := is != nil && e != nil && e != before && is.ResourceVersion() != e.ResourceVersion()
	if asked && moved && !versions.Numeric(is.ResourceVersion()) {
		q.left = true // it is unknown which of the two is later
		return nil
	}
	if fits {
		q.answer.entry = is
	}
	switch {
	case !asked:
		return nil // meanwhile the write was seen, or a later one came, about which the answer says nothing
	case is == nil && e != before && e != nil:
		return nil // the answer is older than the state that the watch has shown since
	case is == nil:
		t.own.drop(key)
		if e != nil {
			t.own.hide(key, e.UID())
		} else if uid := w.known(); sel.field == "" && uid != "" && !w.deleting && !w.hidden {
			t.own.hide(key, uid) // the watch may still show the object
			return []settledWrite{{key, uid, w.last}}
		}
		return nil
	}
	if w.unknown || w.deleting {
		t.own.drop(key)
	}
	t.answered(key, ownWrite{uid: is.UID(), rv: is.ResourceVersion(), meta: is, hidden: !fits, answer: &q.answer})
	t.own.wake() // no reader needs to wait longer for the watch
	return nil
}

// fetch reads an object from the server. The result has no entry if there is no such
// object, or if the field selector does not match the object.
func (t *table) fetch(ctx context.Context, key Key) (*fetched, error) {
	h := named(t.handle, key)
	if also := t.handle.selector.fields; also != nil {
		h = h.fieldedBy(also) // only the server can evaluate the other fields
	}
	found := map[Key]*fetched{key: {}}
	err := t.fetchFrom(ctx, h, found)
	if apierrors.IsBadRequest(err) && t.handle.selector.field == "" {
		// Some aggregated servers refuse every field selector.
		h.selector = selector{}
		err = t.fetchFrom(ctx, h, found)
	}
	return found[key], err
}

// named narrows a handle to one object and drops its labels and fields. A list of the
// handle needs a right that a store has, and a get needs another one. The server finds
// the object of such a list by its name, as it does for a get. The server may also ignore
// field selectors, and list other objects.
func named(h handle, key Key) handle {
	if h.namespaces = nil; key.Namespace != "" {
		h.namespaces = []string{key.Namespace}
	}
	h.selector = selector{}
	return h.fieldedBy(fields.OneTermEqualSelector("metadata.name", key.Name))
}

// fetched is the result of a list for one object.
type fetched struct {
	entry *entry // nil if the object is not in the list
	err   error  // the object is in the list and cannot be read
	// rv is the resource version of the list of the object's namespace. If the later pages
	// of the list are of a later moment, it is that of the first page.
	rv string
}

// fetchFrom lists the objects of a handle until it has found all that are asked for.
// Servers may ignore a field selector.
func (t *table) fetchFrom(ctx context.Context, h handle, asked map[Key]*fetched) error {
	for ns := range h.eachNamespace() {
		req, err := h.request(ctx, "list", http.MethodGet, ns)
		if err != nil {
			return err
		}
		req.accept = h.codec.Accept(wire.AList)
		req.query = url.Values{"limit": {strconv.Itoa(pageSize)}}
		h.selector.set(req.query)
		var circle circle
		for more := true; more; {
			next, err := fetchPage(ctx, h, req, asked)
			if err != nil {
				return err
			}
			if next != "" && circle.closes(next) {
				return req.wrap(errRepeats)
			}
			req.query.Set("continue", next)
			more = next != "" && missing(asked)
		}
	}
	return nil
}

// missing reports that some of the objects that are asked for were not found yet.
func missing(asked map[Key]*fetched) bool {
	for _, f := range asked {
		if f.entry == nil {
			return true
		}
	}
	return false
}

// fetchPage reads one page of a list. If the page's token has expired, it goes on from a
// later moment, as the server offers.
func fetchPage(ctx context.Context, h handle, req *request, asked map[Key]*fetched) (next string, err error) {
	body, contentType, err := h.client.fetchPage(ctx, req)
	if err != nil {
		return "", err
	}
	rec, list := wire.NewRecorder(h.codec), wire.ListReader{Codec: h.codec, MaxBytes: h.client.maxObject}
	list.Each = func(item wire.Raw) error {
		r, err := rec.Record(item)
		if err != nil {
			unreadable(item, asked, req.wrap(err))
			return nil
		}
		if f, ok := asked[Key(r.Key)]; ok {
			f.entry, f.err = wire.NewEntry(r), nil
		}
		return nil
	}
	meta, err := list.Read(contentType, bytes.NewReader(body))
	if err != nil {
		return "", req.wrap(err)
	}
	for key, f := range asked {
		if f.rv == "" && (req.namespace == "" || key.Namespace == req.namespace) {
			f.rv = meta.ResourceVersion
		}
	}
	return meta.Continue, nil
}

// unreadable notes an object of a list that cannot be read. If its key cannot be read
// either, the object may be any of those that are asked for and not found.
func unreadable(item wire.Raw, asked map[Key]*fetched, err error) {
	r, known := wire.Identify(item)
	for key, f := range asked {
		if f.entry == nil && (!known || key == Key(r.Key)) {
			f.err = err
		}
	}
}
