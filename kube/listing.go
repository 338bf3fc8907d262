package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// list gets all objects, in one list or in pages.
func (r *reflector) list(ctx context.Context) outcome {
	start := time.Now()
	rv, err := r.listAll(ctx)
	r.chooseListing(err)
	return outcome{rv: rv, err: err, stage: inListing, took: time.Since(start)}
}

// listAll returns the resource version of the listed objects.
func (r *reflector) listAll(ctx context.Context) (rv string, err error) {
	req, err := r.request(ctx, "list")
	if err != nil {
		return "", err
	}
	req.accept = r.codec.Accept(wire.AList)
	r.sink.begin()
	var read listed
	var pages pages
	for {
		if r.how == inPages {
			req.query.Set("limit", strconv.Itoa(pageSize))
		}
		meta, err := r.onePage(ctx, req, &read)
		if err != nil {
			return "", err
		}
		if meta.Continue == "" {
			rv = meta.ResourceVersion
			break
		}
		if err := pages.goOn(meta.Continue, read.first, read.objects); err != nil {
			return "", err
		}
		req.query.Set("continue", meta.Continue)
	}
	if err := r.isOfKind(&read); err != nil {
		return "", err
	}
	if err := r.complete(rv); err != nil {
		return "", err
	}
	if read.unread == 0 {
		return rv, r.over(&r.unread, inListing)
	}
	return rv, nil
}

// listed is the state of a listing so far.
type listed struct {
	kind   string // as the list names it
	sure   bool   // the list has the usual name
	named  int    // objects that named their kind
	unread int    // objects that could not be read

	// first is the key of the first object of the latest page, and objects is the number
	// of objects of that page.
	first   Key
	objects int
}

// isOfKind refuses a list of an unusual name if nothing shows that it is of the kind:
// neither an object nor an earlier list.
func (r *reflector) isOfKind(l *listed) error {
	switch {
	case l.sure, l.kind == r.listKind:
	case l.named > 0 || r.listKind == "" && r.latest == "":
		r.listKind = l.kind
	default:
		return fmt.Errorf("read list: %w: a %s without objects", wire.ErrAnswer, l.kind)
	}
	return nil
}

// fresh returns an error for a stale listing: one that is older than the state the
// reflector has seen. After some tries, the next listing is accepted as it is.
func (r *reflector) fresh(rv string) error {
	floor := versions.Later(r.latest, r.sink.floor())
	if r.stale >= staleTries || !versions.Older(rv, floor) {
		return nil
	}
	err := fmt.Errorf("%w: resource version %s after %s", errStale, rv, floor)
	r.stale++
	if r.stale == staleTries {
		r.latest = ""
	}
	return err
}

// complete ends a listing of a resource version. A kind whose lists have no resource
// version is listed again and again.
func (r *reflector) complete(rv string) error {
	if err := r.fresh(rv); err != nil {
		return err
	}
	r.stale, r.denied = 0, nil
	if err := r.works(inListing); err != nil {
		return err
	}
	return asSinkError(r.sink.synced(rv))
}

// onePage reads the next page of a list. The pages before it are worth keeping: a page after
// the first that the server refuses for now, or whose answer is lost, is asked for again, up
// to pageTries times in a row. It is a trouble if that takes longer than the patience with
// a server.
func (r *reflector) onePage(ctx context.Context, req *request, read *listed) (metav1.ListMeta, error) {
	var backOff backOff
	begun := time.Now()
	for try := 1; ; try++ {
		start := time.Now()
		meta, err := r.page(ctx, req, read)
		if err == nil || !req.query.Has("continue") || try == pageTries || !passes(err) || ctx.Err() != nil {
			return meta, err
		}
		wait := backOff.delay(paceAfter(err, time.Since(start)))
		if asked, ok := suggestedDelay(err); ok {
			wait = max(wait, jitter(asked))
		}
		if time.Since(begun)+wait >= patience {
			if err := r.fails(err, inListing); err != nil {
				return meta, asSinkError(err)
			}
		}
		if err := sleep(ctx, wait); err != nil {
			return meta, err
		}
	}
}

// page reads one answer to a list request.
func (r *reflector) page(ctx context.Context, req *request, read *listed) (metav1.ListMeta, error) {
	ctx, guard := newGuard(ctx, silence)
	defer guard.stop()
	read.first, read.objects = Key{}, 0
	resp, err := r.client.do(ctx, req)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer resp.Body.Close()
	list := wire.ListReader{
		Codec: r.codec, MaxBytes: r.client.maxObject,
		Named: func(kind string, usual bool) { read.kind, read.sure = kind, usual },
		// If the version stands before the objects, a stale list is refused before any
		// object is shown.
		Head: func(meta metav1.ListMeta) error { return r.fresh(meta.ResourceVersion) },
		Each: func(item wire.Raw) error { return r.listItem(item, read) },
	}
	meta, err := list.Read(resp.Header.Get("Content-Type"), guard.reader(resp.Body))
	return meta, guard.explain(ctx, err)
}

// listItem gives an object of a listing to the sink. An object that cannot be read is
// lost alone: the list goes on.
func (r *reflector) listItem(item wire.Raw, read *listed) error {
	rec, err := r.record(item)
	if rec.Named {
		read.named++
	}
	if read.objects++; read.first == (Key{}) {
		read.first = Key(rec.Key)
	}
	switch {
	case errors.Is(err, wire.ErrAnswer):
		return fmt.Errorf("read list: %w", err)
	case err != nil:
		read.unread++
		return r.keep(item, err)
	case !r.selects(rec):
		return nil
	}
	return asSinkError(r.sink.item(rec))
}

// keep tells the sink to keep its state of a listed object that cannot be read.
func (r *reflector) keep(item wire.Raw, err error) error {
	rec, known := wire.Identify(item)
	key := Key(rec.Key)
	if !known {
		key = Key{}
	}
	r.sink.keep(key)
	return r.skips(r.nameIn(err, key))
}

// nameIn adds the name of the object to an error, if the name is known.
func (r *reflector) nameIn(err error, key Key) error {
	return &Error{Verb: "watch", Kind: r.kind.Kind, Namespace: key.Namespace, Name: key.Name, Err: err}
}

// chooseListing decides how to list next after a listing that ended with err.
func (r *reflector) chooseListing(err error) {
	code := codeOf(err)
	switch {
	case err == nil: // paging works, so it stays: the single list was too large
		r.expired = false
	case isDenied(err):
		r.how = inStream
	case code == http.StatusRequestEntityTooLarge, code == http.StatusInternalServerError,
		code == http.StatusGatewayTimeout && !isTooLarge(err),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errSilent):
		if r.how = inPages; r.expired {
			r.how = inStream // the pages take too long, and the single list is too large
		}
	case isExpired(err) && r.how == inPages:
		// The continue token expired before these pages were all read.
		r.how, r.expired = inOneList, true
	}
}

// isDenied reports that listing is not allowed. Watching may still be allowed.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}
