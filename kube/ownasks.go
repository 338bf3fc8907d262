package kube

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// A write that the watch does not show in time is asked about once: the answer is
// remembered with the write until the watch has come as far, and readers that come
// while the question is on its way wait for its answer. An overloaded server, whose
// watches are late, gets no more questions than there are writes.

// reply is what the server had of an object. The entry is nil if there was none in
// the table's handle.
type reply struct{ entry *entry }

// question is asked by one reader for all.
type question struct {
	done   chan struct{}
	answer reply
	err    error
	// left: the reader that asked has gone, or was broken off, before the answer came.
	left bool
}

// askedEach is how many objects are read from the server one by one, at most.
const askedEach = 16

// ask returns what the server has of objects whose writes are not seen in time, and
// the errors of what could not be asked.
func (t *table) ask(ctx context.Context, keys []Key) (found []keyed, errs []error) {
	for len(keys) > 0 {
		mine, others, settled := t.questions(keys, &found)
		for _, key := range settled {
			if e, at, _, _ := t.peek(key); e != nil {
				found = append(found, keyed{at, e})
			}
		}
		t.askAll(ctx, mine)
		for key, q := range mine {
			found, errs = q.take(key, found, errs)
		}
		keys = nil
		for key, q := range others {
			select {
			case <-q.done:
			case <-ctx.Done():
				return found, append(errs, context.Cause(ctx))
			}
			if q.left {
				keys = append(keys, key) // somebody else has to ask
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

// questions sorts keys: those that the caller has to ask about, those that others
// have asked about, and those whose writes are settled. What is answered is added
// to found.
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
			w.question = &question{done: make(chan struct{})}
			t.own.pending[key] = w
			mine[key] = w.question
		}
	}
	return mine, others, settled
}

// askAll asks the server questions. The reader's trace may break that off, by a panic or
// the end of the goroutine. Then others who wait for the answers have to ask.
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

// answerAll asks the server, one by one or by a list.
func (t *table) answerAll(ctx context.Context, asked map[Key]*question) {
	before := make(map[Key]*entry, len(asked))
	for key := range asked {
		before[key] = t.entry(key)
	}
	sel := t.handle.selector
	// An object that a selector leaves out of a list may still be there.
	if len(asked) > askedEach && sel.label == "" && sel.field == "" {
		listed := make(map[Key]*fetched, len(asked))
		for key := range asked {
			listed[key] = new(fetched)
		}
		err := t.fetchFrom(ctx, t.handle, listed)
		for key, q := range asked {
			t.answer(ctx, key, q, before[key], listed[key].entry, cmp.Or(err, listed[key].err))
		}
		return
	}
	for key, q := range asked {
		e, err := t.fetch(ctx, key)
		t.answer(ctx, key, q, before[key], e, err)
	}
}

// answer notes what the server has answered for an object whose write was pending:
// nil if there is none. Before is its entry when the server was asked.
func (t *table) answer(ctx context.Context, key Key, q *question, before, is *entry, err error) {
	t.settled(t.noteAnswer(ctx, key, q, before, is, err), nil)
}

// noteAnswer is answer. It returns the write if its object is gone and was never in the
// content.
func (t *table) noteAnswer(
	ctx context.Context, key Key, q *question, before, is *entry, err error,
) (vanished []settledWrite) {
	sel := t.handle.selector
	// A list by the field selector was asked for those that fit.
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
	if fits {
		q.answer.entry = is
	}
	e := t.entry(key)
	switch {
	case !asked:
		return nil // the write is seen meanwhile, or a later one has come, of which this tells nothing
	case is == nil && e != before && e != nil:
		return nil // the answer is of before what the watch has told since
	case is == nil:
		t.own.drop(key)
		if e != nil {
			t.own.hide(key, e.UID())
		} else if uid := w.known(); sel.field == "" && uid != "" && !w.deleting && !w.hidden {
			t.own.hide(key, uid) // the watch may still tell of it
			return []settledWrite{{key, uid, w.last}}
		}
		return nil
	}
	if w.unknown || w.deleting {
		t.own.drop(key)
	}
	t.answered(key, ownWrite{uid: is.UID(), rv: is.ResourceVersion(), meta: is, hidden: !fits, answer: &q.answer})
	t.own.wake() // nobody needs to wait longer for the watch
	return nil
}

// fetch reads an object from the server: nil if there is none, or none that the field
// selector fits.
func (t *table) fetch(ctx context.Context, key Key) (*entry, error) {
	h := named(t.handle, key)
	if field := t.handle.selector.field; field != "" {
		h.selector.field = field + "," + h.selector.field // of the other fields only the server can tell
	}
	found := map[Key]*fetched{key: {}}
	err := t.fetchFrom(ctx, h, found)
	if apierrors.IsBadRequest(err) && t.handle.selector.field == "" {
		// Some aggregated servers refuse every field selector.
		h.selector = selector{}
		err = t.fetchFrom(ctx, h, found)
	}
	if err != nil {
		return nil, err
	}
	return found[key].entry, found[key].err
}

// named narrows a handle to one object, with whatever labels and fields. A list of the
// handle needs the right that a store has, which a get does not. The server finds the
// object of such a list by its name, as it does for a get. It may also ignore field
// selectors, and list others.
func named(h handle, key Key) handle {
	if h.namespaces = nil; key.Namespace != "" {
		h.namespaces = []string{key.Namespace}
	}
	h.selector = selector{field: fields.OneTermEqualSelector("metadata.name", key.Name).String()}
	return h
}

// fetched is what a list has of an object.
type fetched struct {
	entry *entry // nil if it is not in the list
	err   error  // it is there, and cannot be read
}

// fetchFrom lists the objects of a handle until those that are asked for are found.
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

// fetchPage reads one page of a list. A page whose token has expired goes on from a
// later moment, as the server offers.
func fetchPage(ctx context.Context, h handle, req *request, asked map[Key]*fetched) (next string, err error) {
	body, contentType, err := h.client.roundTrip(ctx, req)
	if status, expired := expiredPage(err); expired && status.Continue != "" {
		req.query.Set("continue", status.Continue)
		body, contentType, err = h.client.roundTrip(ctx, req)
	}
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
	return meta.Continue, nil
}

// unreadable notes an object of a list that cannot be read. If its key cannot be read
// either, it may be any of the objects that are asked for and not found.
func unreadable(item wire.Raw, asked map[Key]*fetched, err error) {
	r, known := wire.Identify(item)
	for key, f := range asked {
		if f.entry == nil && (!known || key == Key(r.Key)) {
			f.err = err
		}
	}
}
