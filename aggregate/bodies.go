package aggregate

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

const (
	// small is the size of a body that needs no room, in bytes.
	small = 64 << 10
	// unread is how many bodies of the largest size may be in memory before they are handled.
	unread = 10
	// readWithin is how long a client may take to send a body that needs room.
	readWithin = 30 * time.Second
)

// bodies bounds the memory for bodies. A body of a hundred thousand keys takes a hundred times its
// size while it is handled. So bodies that are handled at once are together not larger than the
// largest that is allowed. A body is handled when it is complete: a client that sends it slowly keeps
// nobody waiting.
type bodies struct {
	limit         int64 // of one body, in bytes
	read, handled *semaphore.Weighted
	within        time.Duration
}

func newBodies(limit int64) *bodies {
	return &bodies{limit, semaphore.NewWeighted(unread * limit), semaphore.NewWeighted(limit), readWithin}
}

// boundBodies adds the bounds to the usual handlers.
func boundBodies(next http.Handler, c *genericapiserver.Config) http.Handler {
	b := newBodies(c.MaxRequestBodyBytes)
	return genericapiserver.DefaultBuildHandlerChain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || r.Body == nil || r.Body == http.NoBody || c.LongRunningFunc(r, info) {
			next.ServeHTTP(w, r)
			return
		}
		b.serve(w, r, next)
	}), c)
}

// serve reads a body, waits until there is room for it, and handles it.
func (b *bodies) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	var data bytes.Buffer
	if _, err := data.ReadFrom(io.LimitReader(r.Body, small)); err != nil {
		refuse(w, r, unreadable(err))
		return
	}
	weight := int64(0)
	switch {
	case data.Len() == small:
		weight = b.limit
		if r.ContentLength >= small {
			weight = min(r.ContentLength, b.limit)
		}
		if b.read.Acquire(r.Context(), weight) != nil {
			refuse(w, r, busy())
			return
		}
		defer b.read.Release(weight)
		if err := b.rest(w, r, &data); err != nil {
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close") // the rest of the body is not awaited
			}
			refuse(w, r, unreadable(err))
			return
		}
	case grows(r.Header.Get("Content-Type"), data.Bytes()):
		weight = b.limit
	}
	if weight > 0 {
		if b.handled.Acquire(r.Context(), weight) != nil {
			refuse(w, r, busy())
			return
		}
		defer b.handled.Release(weight)
	}
	r.Body, r.ContentLength = io.NopCloser(&data), int64(data.Len())
	next.ServeHTTP(w, r)
}

// rest reads the rest of a body. A byte more than the limit is enough to refuse it.
func (b *bodies) rest(w http.ResponseWriter, r *http.Request, data *bytes.Buffer) error {
	connection := http.NewResponseController(w)
	if err := connection.SetReadDeadline(time.Now().Add(b.within)); err != nil {
		return err
	}
	if _, err := data.ReadFrom(io.LimitReader(r.Body, b.limit+1-small)); err != nil {
		return err
	}
	return connection.SetReadDeadline(time.Time{})
}

// grows reports whether a small body may need much memory: a JSON patch can copy what it has
// copied, and a part of a YAML document can stand for another.
func grows(contentType string, body []byte) bool {
	is, _, _ := mime.ParseMediaType(contentType)
	switch {
	case is == "application/json-patch+json":
		var patch []map[string]any
		_ = json.Unmarshal(body, &patch) // others refuse it
		return slices.ContainsFunc(patch, func(o map[string]any) bool { return o["op"] == "copy" })
	case strings.HasSuffix(is, "yaml"):
		return bytes.ContainsRune(body, '&') // it names a part
	}
	return false
}

// busy is the error of a request that waited for room as long as it may.
func busy() error {
	return apierrors.NewTimeoutError("there are too many large requests at once", 1)
}

// unreadable is the error of a body that cannot be read.
func unreadable(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return apierrors.NewTimeoutError("the body of the request did not arrive in time", 0)
	}
	return apierrors.NewBadRequest("read body: " + err.Error())
}

// refuse answers with the Status of an error.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	responsewriters.ErrorNegotiated(err, apiserver.Codecs, metav1.Unversioned, w, r)
}
