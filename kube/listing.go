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
	var circle circle
	for {
		if r.how == inPages {
			req.query.Set("limit", strconv.Itoa(pageSize))
		}
		meta, err := r.page(ctx, req, &read)
		if err != nil {
			return "", err
		}
		if meta.Continue == "" {
			rv = meta.ResourceVersion
			break
		}
		if circle.closes(meta.Continue) {
			return "", errRepeats
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

// errRepeats: the continue token of the next page is one that led to this page or to an
// earlier one.
var errRepeats = fmt.Errorf("%w: the page continues with itself", wire.ErrAnswer)

// circle notices continue tokens that lead in a circle, by Brent's algorithm: it compares
// each token with a single stored one, and stores a later token after twice as many pages
// each time.
type circle struct {
	token       string
	pages, most int
}

// closes reports that a token has led to an earlier page before. It may notice this only
// after some rounds.
func (c *circle) closes(token string) bool {
	if c.most > 0 && token == c.token {
		return true
	}
	if c.pages++; c.pages > c.most {
		c.token, c.pages, c.most = token, 0, 2*c.most+1
	}
	return false
}

// listed is the state of a listing so far.
type listed struct {
	kind   string // as the list names it
	sure   bool   // the list has the usual name
	named  int    // objects that named their kind
	unread int    // objects that could not be read
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
	if !versions.Older(rv, r.latest) {
		return nil
	}
	err := fmt.Errorf("%w: resource version %s after %s", errStale, rv, r.latest)
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

// page reads one answer to a list request.
func (r *reflector) page(ctx context.Context, req *request, read *listed) (metav1.ListMeta, error) {
	ctx, guard := newGuard(ctx, silence)
	defer guard.stop()
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
	switch {
	case errors.Is(err, wire.ErrAnswer):
		return fmt.Errorf("read list: %w", err)
	case err != nil:
		read.unread++
		return r.keep(item, err)
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
	case isDenied(err):
		r.how = inStream
	case code == http.StatusRequestEntityTooLarge, code == http.StatusInternalServerError,
		code == http.StatusGatewayTimeout && !isTooLarge(err),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errSilent):
		r.how = inPages
	case isExpired(err) && r.how == inPages:
		r.how = inOneList // the continue token expired before these pages were all read
	}
}

// isDenied reports that listing is not allowed. Watching may still be allowed.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}
