package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/crd"
)

const (
	conversionVersion = "apiextensions.k8s.io/v1"
	conversionKind    = "ConversionReview"
	// conversionTime is how long the API server waits for an answer, less a margin.
	conversionTime = 30*time.Second - 500*time.Millisecond
	// maxConverted is how large an object may be, and maxConversion all of a request. The API server sends
	// one object in a request. Its own limit is 3 MiB.
	maxConverted  = 8 << 20
	maxConversion = 32 << 20
)

// newConversions returns the handler of the API server's requests for the conversion of objects, by the
// functions of definitions: see [crd.Converts]. It shares the memory and the settings of a server.
//
// If a conversion fails, panics or takes longer than the API server waits, the answer is a review that
// names the object and the version. A panic is logged. A request that is no review gets a text with a
// status of 400 and above.
//
// A function that does not return keeps its goroutine until it does.
func newConversions(s *server, definitions []*crd.Definition) (*conversions, error) {
	c := &conversions{server: s, kinds: make(map[schema.GroupKind]*crd.Definition)}
	for _, d := range definitions {
		if err := d.Err(); err != nil {
			return nil, fmt.Errorf("serve conversions: %w", err)
		}
		kind := schema.GroupKind{Group: d.Spec.Group, Kind: d.Spec.Names.Kind}
		if c.kinds[kind] != nil {
			return nil, fmt.Errorf("serve conversions: there are two definitions of %s", kind)
		}
		c.kinds[kind] = d
	}
	return c, nil
}

type conversions struct {
	*server
	kinds map[schema.GroupKind]*crd.Definition
}

// These are the types of k8s.io/apiextensions-apiserver, with the objects as they were received.

type conversionReview struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Request    *conversionRequest  `json:"request,omitempty"`
	Response   *conversionResponse `json:"response,omitempty"`
}

type conversionRequest struct {
	UID               string           `json:"uid"`
	DesiredAPIVersion string           `json:"desiredAPIVersion"`
	Objects           []jsontext.Value `json:"objects"`
}

type conversionResponse struct {
	UID              string           `json:"uid"`
	ConvertedObjects []jsontext.Value `json:"convertedObjects"`
	Result           conversionResult `json:"result"`
}

type conversionResult struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

func (c *conversions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := &inflight{server: c.server}
	q, problem := readConversion(in, r)
	if problem != nil {
		in.release()
		c.Logger.Warn("a conversion failed", "code", problem.code, "error", problem, "from", r.RemoteAddr)
		if problem.code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, problem.Error(), problem.code)
		return
	}
	converted, err := c.inTime(in, q, r)
	if errors.Is(err, crd.ErrVersion) && c.unsettled() {
		// The API server asks again, on a new connection, which may reach another replica.
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Connection", "close")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer := &conversionResponse{UID: q.UID, ConvertedObjects: converted, Result: conversionResult{Status: "Success"}}
	if err != nil {
		c.Logger.Warn("a conversion failed", "version", q.DesiredAPIVersion, "error", err)
		answer.ConvertedObjects = []jsontext.Value{}
		answer.Result = conversionResult{"Failed", err.Error()}
	}
	body, err := json.Marshal(conversionReview{conversionVersion, conversionKind, nil, answer},
		jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		http.Error(w, "encode the review: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // nobody is left to be told
}

// readConversion reads a request.
func readConversion(in *inflight, r *http.Request) (*conversionRequest, *failed) {
	if r.Method != http.MethodPost {
		return nil, &failed{http.StatusMethodNotAllowed, "", errors.New("a conversion is asked for by POST")}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &failed{http.StatusUnsupportedMediaType, "", errors.New("the content type must be application/json")}
	}
	body, problem := in.read(r, maxConversion)
	if problem != nil {
		return nil, problem
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, bad("the body is empty")
	}
	var review conversionReview
	if err := json.Unmarshal(body, &review, jsontext.AllowInvalidUTF8(true),
		jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, bad("decode the review: %v", err)
	}
	switch q := review.Request; {
	case review.APIVersion != conversionVersion || review.Kind != conversionKind:
		return nil, bad("the body is a %q of %q: want a %s of %s",
			review.Kind, review.APIVersion, conversionKind, conversionVersion)
	case q == nil:
		return nil, bad("the review has no request")
	case q.UID == "":
		return nil, bad("the request has no uid")
	default:
		return q, nil
	}
}

// inTime converts the objects of a request in the time that the API server waits.
func (c *conversions) inTime(in *inflight, q *conversionRequest, r *http.Request) ([]jsontext.Value, error) {
	wait := conversionTime
	if d, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && d > time.Second {
		wait = min(wait, d-500*time.Millisecond)
	}
	type result struct {
		converted []jsontext.Value
		err       error
	}
	done := make(chan result, 1)
	go func() {
		now := result{nil, errors.New("the function that converts ended its goroutine")}
		defer func() {
			in.release()
			done <- now
		}()
		now.converted, now.err = c.convert(q)
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case now := <-done:
		return now.converted, now.err
	case <-timer.C:
		in.outlive(r.URL.Path)
		return nil, fmt.Errorf("the conversion to %s took longer than %v", q.DesiredAPIVersion, wait)
	case <-r.Context().Done():
		in.outlive(r.URL.Path)
		return nil, r.Context().Err()
	}
}

// convert converts the objects of a request, in their order.
func (c *conversions) convert(q *conversionRequest) ([]jsontext.Value, error) {
	converted := make([]jsontext.Value, 0, len(q.Objects))
	for _, object := range q.Objects {
		as, err := c.one(object, q.DesiredAPIVersion)
		if err != nil {
			return nil, err
		}
		converted = append(converted, as)
	}
	return converted, nil
}

// one converts an object. The error names the object and the version.
func (c *conversions) one(object jsontext.Value, desired string) (converted jsontext.Value, err error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	defer func() {
		if v := recover(); v != nil {
			c.Logger.Error("the conversion of an object panicked", "kind", head.Kind, "namespace", head.Metadata.Namespace,
				"name", head.Metadata.Name, "version", desired, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("the conversion panicked: %v", v)
		}
		if err != nil {
			name := strings.TrimPrefix(head.Metadata.Namespace+"/"+head.Metadata.Name, "/")
			err = fmt.Errorf("convert %s %s of %s to %s: %w", head.Kind, name, head.APIVersion, desired, err)
		}
	}()
	if len(object) > maxConverted {
		return nil, fmt.Errorf("the object has more than %d bytes", maxConverted)
	}
	if err := json.Unmarshal(object, &head, jsontext.AllowInvalidUTF8(true),
		jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	group, _, _ := strings.Cut(head.APIVersion, "/")
	wanted, version, _ := strings.Cut(desired, "/")
	d := c.kinds[schema.GroupKind{Group: group, Kind: head.Kind}]
	if d == nil || wanted != group {
		return nil, fmt.Errorf("%w to %s", crd.ErrVersion, desired)
	}
	return d.Convert(object, version)
}
