package kube

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/own"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// If the watch does not show a write in time, the server is asked about it once. Readers that
// come while the question is on its way wait for its answer, which the content takes. So an
// overloaded server, whose watches are late, gets no more questions than there are writes.

// asks holds the questions of a table that are on their way.
type asks struct {
	mu   sync.Mutex
	open map[Key]*question
}

// question is a question to the server that one reader asks for all readers.
type question struct {
	done chan struct{}
	// is is the answer: the object, or nil if the table's handle has no such object.
	is  *entry
	err error
	// again: the question has to be asked again. The reader that asked has gone, or was broken
	// off, before the answer came. Or the watch has shown the object meanwhile, and it is not
	// known which state is later.
	again bool
	began uint64 // the number of own writes at the time of the question
}

// askedEach is the largest number of objects that are read from the server one by one.
const askedEach = 16

// ask returns the server's state of objects of which the content is not sure. It also returns
// the keys that it has asked for, and the errors of the questions that failed.
func (t *table) ask(ctx context.Context, keys []Key) (found []keyed, asked map[Key]struct{}, errs []error) {
	asked = make(map[Key]struct{})
	for _, key := range keys {
		asked[key] = struct{}{}
	}
	for len(keys) > 0 {
		mine, others, sure := t.questions(keys)
		found = append(found, sure...)
		asReflector(func() { t.askAll(ctx, mine) })
		keys = nil
		take := func(key Key, q *question) {
			switch {
			case q.again && ctx.Err() == nil:
				keys = append(keys, key)
			case q.err != nil:
				errs = append(errs, q.err)
			case q.is != nil:
				found = append(found, keyed{key, q.is})
			}
		}
		for key, q := range mine {
			take(key, q)
		}
		if len(others) > 0 && underReflector() { // those questions may wait for this caller
			return found, asked, append(errs, t.waitsForItself())
		}
		for key, q := range others {
			select {
			case <-q.done:
				take(key, q)
			case <-ctx.Done():
				return found, asked, append(errs, context.Cause(ctx))
			}
		}
	}
	return found, asked, errs
}

// questions returns the questions about keys that the caller has to ask, those that others ask
// already, and the objects of which the content is sure by now.
func (t *table) questions(keys []Key) (mine, others map[Key]*question, sure []keyed) {
	mine, others = make(map[Key]*question), make(map[Key]*question)
	t.asks.mu.Lock()
	defer t.asks.mu.Unlock()
	now := t.now()
	began := now.own.Began()
	for _, key := range keys {
		if now.own.Look(key) == own.Read {
			if e := now.entry(key); e != nil {
				sure = append(sure, keyed{key, e})
			}
			continue
		}
		if q := t.asks.open[key]; q != nil && q.began == began {
			others[key] = q
			continue
		}
		q := &question{done: make(chan struct{}), began: began}
		if t.asks.open == nil {
			t.asks.open = make(map[Key]*question)
		}
		t.asks.open[key], mine[key] = q, q
	}
	return mine, others, sure
}

// end ends a question.
func (t *table) end(key Key, q *question) {
	t.asks.mu.Lock()
	defer t.asks.mu.Unlock()
	if t.asks.open[key] == q {
		delete(t.asks.open, key)
	}
	close(q.done)
}

// askAll asks the server questions. The reader's trace may break that off, by a panic or
// by the end of the goroutine. Then another reader that waits for the answers has to ask.
func (t *table) askAll(ctx context.Context, asked map[Key]*question) {
	left := maps.Clone(asked)
	defer func() {
		for key, q := range left {
			q.again = true
			t.end(key, q)
		}
	}()
	before := t.now()
	answer := func(key Key, found *fetched, err error) {
		t.answer(ctx, key, asked[key], before.entry(key), found, cmp.Or(err, found.err))
		delete(left, key)
		t.end(key, asked[key])
	}
	if len(asked) > askedEach {
		listed := make(map[Key]*fetched, len(asked))
		for key := range asked {
			listed[key] = new(fetched)
		}
		err := t.fetchFrom(ctx, t.handle, listed)
		for key := range asked {
			answer(key, listed[key], err)
		}
		return
	}
	for key := range asked {
		found, err := t.fetch(ctx, key)
		answer(key, found, err)
	}
}

// answer notes the server's answer to a question. Before is the content's entry at the time of the
// question.
func (t *table) answer(ctx context.Context, key Key, q *question, before *entry, found *fetched, err error) {
	if err != nil {
		q.err, q.again = err, ctx.Err() != nil
		return
	}
	is, version := found.entry, found.rv
	if is != nil {
		version = is.ResourceVersion()
	}
	// The question was about the object that the field selector matches, and about no labels.
	labels := t.handle.selector.labels
	fits := is != nil && (labels == nil || labels.Matches(is.Labels()))
	t.write(func(d *draft) {
		now := d.next.object(key)
		q.is, q.err, q.again = nil, nil, false
		if least := d.next.own.Least(key, now); versions.Older(version, least) {
			if d.next.own.Look(key) == own.Read { // the watch was quicker than the answer
				q.is = d.next.entry(key)
				return
			}
			q.err = fmt.Errorf("%w: resource version %s after %s", errStale, version, least)
			return
		}
		if d.next.entry(key) != before && !versions.Numeric(version) && (is == nil || is.ResourceVersion() != now.Version) {
			q.again = true // it is unknown which of the two is later
			return
		}
		var v own.Verdict
		if is == nil {
			d.next.own, v = d.next.own.Absent(key, now, version, q.began)
		} else {
			a := own.Answer{Object: objectOf(is), Whole: true, Out: !fits, Last: is}
			d.next.own, v = d.next.own.Answered(key, now, a, q.began)
		}
		if v.Drop {
			d.obey(key, v, nil)
		} else {
			d.obey(key, v, is)
		}
		switch {
		case d.next.own.Look(key) == own.Read:
			q.is = d.next.entry(key)
		case fits:
			q.is = is
		}
	})
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
		all := *h
		all.selector = selector{}
		err = t.fetchFrom(ctx, &all, found)
	}
	return found[key], err
}

// named narrows a handle to one object and drops its labels and fields. A list of the
// handle needs a right that a store has, and a get needs another one. The server finds
// the object of such a list by its name, as it does for a get. The server may also ignore
// field selectors, and list other objects.
func named(h *handle, key Key) *handle {
	is := *h
	if is.namespaces = nil; key.Namespace != "" {
		is.namespaces = []string{key.Namespace}
	}
	is.selector = selector{}
	return is.fieldedBy(fields.OneTermEqualSelector("metadata.name", key.Name))
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
func (t *table) fetchFrom(ctx context.Context, h *handle, asked map[Key]*fetched) error {
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
func fetchPage(ctx context.Context, h *handle, req *request, asked map[Key]*fetched) (next string, err error) {
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
