package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/pintle-go/pintle/internal/gate"
	"github.com/pintle-go/pintle/internal/requesttrace"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

const (
	typeJSONPatch  = "application/json-patch+json"
	typeMergePatch = "application/merge-patch+json"
	typeApply      = "application/apply-patch+yaml" // JSON is YAML
)

// request is one call of the API, before it is sent.
type request struct {
	verb        string // for errors and metrics
	method      string
	resource    Kind
	namespace   string
	name        string
	subresource string
	path        string // replaces the path of the resource
	query       url.Values
	accept      string
	contentType string
	body        []byte
	// authorization is sent instead of the configured credentials.
	authorization string
	// once: the caller has a retry policy of its own.
	once bool
	// ensures: the write is an Ensure, which records its answer by itself.
	ensures bool
}

const (
	// maxTries bounds how often a request is sent. The server's priority and fairness
	// tells clients by 429 and Retry-After to come back later.
	maxTries = 10
	// maxLost bounds how often a read is repeated after its answer was lost.
	maxLost       = 3
	maxRetryAfter = 2 * time.Minute
)

const (
	// defaultMaxObject is many times the size of the largest object in an API server.
	defaultMaxObject = 64 << 20
	// severalObjects is how many times larger an answer with several objects may be.
	severalObjects = 8
)

// causeDisruptionBudget is DisruptionBudgetCause of k8s.io/api/policy/v1. That package is
// not imported, because it would bring all of core/v1 into every program.
const causeDisruptionBudget = "DisruptionBudget"

// errLost marks an error after which the server may have executed the request.
var errLost = errors.New("the answer was lost")

// do sends r until the server answers it. It returns an answer with a status below 300,
// or an error with the object's name. The caller closes the body of the answer.
//
// do repeats: any request that the server answers with 429, 500 or 503 and a Retry-After
// header (the server has not executed it); a read whose answer was lost or was 502, 503
// or 504; once, any request that was answered 401, if credentials are renewed. It repeats
// no other request: a write whose answer was lost may have been executed, and then the
// answer to its repetition, such as 409, would be wrong.
func (c *Client) do(ctx context.Context, r *request) (*http.Response, error) {
	lost, renewed := 0, false
	for try := 1; ; try++ {
		resp, sent, err := c.send(ctx, r)
		if err != nil {
			if ctx.Err() != nil {
				return nil, r.wrap(fmt.Errorf("%w before %s answered", context.Cause(ctx), c.base.Host))
			}
			err = unreachable(err, c.base)
			if sent && !errors.Is(err, errRedirect) {
				if lost++; r.method == http.MethodGet && !r.once && lost <= maxLost {
					if serr := sleep(ctx, jitter(time.Duration(lost)*100*time.Millisecond)); serr == nil {
						continue
					}
				}
				err = fmt.Errorf("%w: %w", errLost, err)
			}
			return nil, r.wrap(err)
		}
		if resp.StatusCode < http.StatusMultipleChoices {
			return resp, nil
		}
		if resp.StatusCode == http.StatusUnauthorized && !renewed {
			if renewed = true; c.renew(r) {
				resp.Body.Close()
				continue
			}
		}
		wait, asked := retryAfter(resp)
		serr := statusError(resp, r)
		if errors.Is(serr, ErrNotServed) {
			c.discovery.forget(r.resource.GroupVersion())
		}
		if r.once || try == maxTries || !repeatable(r, resp.StatusCode, asked, serr) {
			return nil, r.wrap(serr)
		}
		// A server may tell the client to come back at once. It is not asked in a hot
		// loop.
		wait = max(wait, time.Duration(try)*200*time.Millisecond)
		if err := sleep(ctx, jitter(wait)); err != nil {
			return nil, r.wrap(fmt.Errorf("%w while waiting to repeat the request: %w", err, serr))
		}
	}
}

// repeatable decides about an answer with an error status.
func repeatable(r *request, code int, asked bool, err error) bool {
	switch code {
	case http.StatusTooManyRequests:
		// An eviction that a disruption budget forbids is an answer, not an overload.
		return !apierrors.HasStatusCause(err, causeDisruptionBudget)
	case http.StatusInternalServerError, http.StatusServiceUnavailable:
		// A read gets 500 for good reasons, such as a broken webhook.
		return asked || r.method == http.MethodGet && code == http.StatusServiceUnavailable
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return r.method == http.MethodGet && !isTooLarge(err)
	}
	return false
}

// send sends r once. It reports whether the server may have seen r. The server has not
// seen r if there was no connection or if there were no credentials.
func (c *Client) send(ctx context.Context, r *request) (resp *http.Response, sent bool, err error) {
	u := *c.base
	path := r.path
	if path == "" {
		path = r.resource.path(r.namespace, r.name, r.subresource)
	}
	u = *u.JoinPath(path)
	u.RawQuery = r.query.Encode()
	info := RequestInfo{
		Verb: r.verb, Method: r.method, Host: c.base.Host, Kind: r.resource.Kind,
		Namespace: r.namespace, Name: r.name, Subresource: r.subresource,
	}
	ctx, ended := requesttrace.Begin(ctx, requesttrace.Request{
		Verb: r.verb, Method: r.method, Kind: r.resource.Kind,
		Namespace: r.namespace, Name: r.name, Subresource: r.subresource,
	})
	defer func() { ended(info.Code, err) }()
	var wrote atomic.Bool // a goroutine of the transport sets it
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, false, err
	}
	if err := gate.Pass(req); err != nil {
		return nil, false, err
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.authorization != "" {
		req.Header.Set("Authorization", r.authorization)
	}
	start := time.Now()
	resp, err = c.http.Do(req)
	info.Duration = time.Since(start)
	if resp != nil {
		info.Code = resp.StatusCode
	}
	c.observed(info)
	if err != nil {
		return nil, wrote.Load(), err
	}
	if resp.StatusCode < http.StatusOK { // the body of a switch of protocols does not end
		resp.Body.Close()
		return nil, true, fmt.Errorf("%w: %s", wire.ErrAnswer, resp.Status)
	}
	c.warn(resp, r)
	return resp, true, nil
}

// warn logs the Warning headers of an answer (RFC 7234, KEP-1693).
func (c *Client) warn(resp *http.Response, r *request) {
	headers := resp.Header.Values("Warning")
	if len(headers) == 0 {
		return
	}
	parsed, _ := utilnet.ParseWarningHeaders(headers) // text that does not parse is no warning of the API
	for _, w := range parsed {
		if w.Code == 299 && w.Text != "" && c.warnings.fresh(w.Text) {
			c.logger.Warn("server warning", "text", w.Text, "verb", r.verb, "kind", r.resource.Kind, "object",
				Key{r.namespace, r.name}.String())
		}
	}
}

// roundTrip sends r and returns the whole body of its answer.
func (c *Client) roundTrip(ctx context.Context, r *request) (body []byte, contentType string, err error) {
	ctx, release := gate.Bind(ctx, r.method)
	defer release()
	for lost := 1; ; lost++ {
		resp, err := c.do(ctx, r)
		if err != nil {
			return nil, "", err
		}
		body, err = wire.ReadAll(resp.Body, c.most(r))
		resp.Body.Close()
		switch {
		case err == nil:
			return body, resp.Header.Get("Content-Type"), nil
		case errors.Is(err, wire.ErrTooLarge): // the answer would be too large the next time too
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case r.method == http.MethodGet && !r.once && lost <= maxLost:
			if sleep(ctx, jitter(time.Duration(lost)*100*time.Millisecond)) == nil {
				continue
			}
			err = context.Cause(ctx)
		}
		return nil, "", r.wrap(fmt.Errorf("read answer: %w: %w", errLost, err))
	}
}

// most returns the largest size that the answer to a request may have.
func (c *Client) most(r *request) int64 {
	if r.verb == "list" || r.verb == "deletecollection" {
		return severalObjects * c.maxObject
	}
	return c.maxObject
}

func (r *request) wrap(err error) error {
	return &Error{Verb: r.verb, Kind: r.kindName(), Namespace: r.namespace, Name: r.name, Err: err}
}

// kindName returns the kind, with the subresource behind a slash.
func (r *request) kindName() string {
	if r.subresource == "" {
		return r.resource.Kind
	}
	return r.resource.Kind + "/" + r.subresource
}

// retryAfter reads the Retry-After header, in seconds or as a date. A time in the past
// means no wait.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	h := resp.Header.Get("Retry-After")
	if h == "" {
		return 0, false
	}
	var d time.Duration
	if s, err := strconv.Atoi(h); err == nil {
		d = time.Duration(min(s, int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(h); err == nil {
		d = time.Until(at)
	} else {
		return 0, false
	}
	return min(max(d, 0), maxRetryAfter), true
}

func retryAfterSeconds(resp *http.Response) int {
	d, _ := retryAfter(resp)
	return int(d / time.Second)
}
