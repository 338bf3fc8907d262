package certificate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/internal/apitest"
	"github.com/pintle-go/pintle/kube"
)

// world plays an API server with one Secret and one target, in virtual time, and the
// clients that use the target's bundle.
type world struct {
	mu      sync.Mutex
	rv      int
	secret  *corev1.Secret
	target  *served
	changed chan struct{} // closed and replaced at every change

	writes   int // of the Secret
	creates  int
	editions []edition
	broken   strings.Builder
}

// edition is a bundle that the target had for a time.
type edition struct {
	bundle     []byte
	until      time.Time // zero: it has it
	bySomebody bool      // it was not an issuer that wrote it
}

const (
	lagging = time.Hour // the longest time for which a client uses a former bundle
	name    = "farm.default.svc"
)

func newWorld() *world {
	w := &world{rv: 100, changed: make(chan struct{})}
	w.target = &served{Webhooks: []webhook{{"a", &clientConfig{Service: &service{"default", "farm"}}}}}
	w.target.Name, w.target.UID = "farm", "target"
	w.put(w.target, nil, true)
	return w
}

// put stores an object. It is called with mu held, or before anybody else knows w.
func (w *world) put(target *served, secret *corev1.Secret, somebody bool) {
	w.rv++
	if target != nil {
		now := *target
		now.APIVersion, now.Kind = "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"
		now.ResourceVersion = strconv.Itoa(w.rv)
		w.target = &now
		if n := len(w.editions); n > 0 {
			w.editions[n-1].until = time.Now()
		}
		w.editions = append(w.editions, edition{bundle: now.Webhooks[0].ClientConfig.CABundle, bySomebody: somebody})
	}
	if secret != nil {
		now := secret.DeepCopy()
		now.APIVersion, now.Kind = "v1", "Secret"
		now.ResourceVersion = strconv.Itoa(w.rv)
		w.secret = now
		w.writes++
		if s, err := decode(now.Data); err == nil && s.serving != nil && !somebody {
			w.check("the Secret", s)
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// check checks that every client trusts a certificate. It is called with mu held.
func (w *world) check(who string, s state) {
	now := time.Now()
	for _, e := range w.editions {
		if !e.bySomebody && (e.until.IsZero() || now.Sub(e.until) < lagging) {
			if err := trusts(e.bundle, s, name, now); err != nil {
				fmt.Fprintf(&w.broken, "%s: the certificate of %s is not trusted with a bundle in use until %s: %v\n",
					now, who, e.until, err)
			}
		}
	}
}

// replica is one process.
type replica struct {
	*world
	name   string
	issuer *Issuer
	stop   context.CancelFunc
	ended  chan struct{}

	fate  sync.Mutex
	left  int  // requests until it dies; zero: it lives on
	after bool // it dies after the request was executed
}

func (w *world) replica(t testing.TB, name string) *replica {
	r := &replica{world: w, name: name}
	logger := slog.New(slog.DiscardHandler)
	client, err := kube.Config{Rest: &rest.Config{Host: "http://server", Transport: r}, Logger: logger}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	r.issuer = &Issuer{
		Client: client, Namespace: "default", Service: "farm", Targets: []Target{ValidatingWebhooks("farm")}, Logger: logger,
		Lifetime: 2 * day, AuthorityLifetime: 8 * day, Propagation: lagging,
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	r.ended = make(chan struct{})
	go func() {
		defer close(r.ended)
		if err := r.issuer.Run(ctx); err != nil {
			panic(err)
		}
	}()
	return r
}

func (r *replica) dieAt(requests int, after bool) {
	r.fate.Lock()
	defer r.fate.Unlock()
	r.left, r.after = requests, after
}

func (r *replica) runs() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

func (r *replica) serving() (state, bool) {
	c, err := r.issuer.GetCertificate(nil)
	return state{serving: c}, err == nil
}

// RoundTrip answers a request, or lets the process die.
func (r *replica) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	watches := req.URL.Query().Get("watch") == "true"
	r.fate.Lock()
	dies := r.left == 1 && !watches
	if r.left > 0 && !watches {
		r.left--
	}
	after := r.after
	r.fate.Unlock()
	if dies && !after {
		r.stop()
		return nil, errors.New("the process ends")
	}
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
	}
	time.Sleep(time.Millisecond)
	answer := r.answer(req, body)
	if dies {
		r.stop()
		return nil, errors.New("the process ends")
	}
	return answer, nil
}

func (w *world) answer(r *http.Request, body []byte) *http.Response {
	w.mu.Lock()
	defer w.mu.Unlock()
	secrets := strings.Contains(r.URL.Path, "/secrets")
	resource := schema.GroupResource{Resource: "objects"}
	conflict := apierrors.NewConflict(resource, "farm", errors.New("it was changed"))
	list := strings.HasSuffix(r.URL.Path, "/secrets") || strings.HasSuffix(r.URL.Path, "configurations")
	switch {
	case r.URL.Query().Get("watch") == "true":
		return w.watch(r, secrets)
	case r.Method == http.MethodGet && list:
		items, version, kind := []any{}, "v1", "SecretList"
		if !secrets {
			version, kind = "admissionregistration.k8s.io/v1", "ValidatingWebhookConfigurationList"
		}
		if secrets && w.secret != nil {
			items = append(items, w.secret)
		} else if !secrets {
			items = append(items, w.target)
		}
		return apitest.Respond(r, http.StatusOK, map[string]any{
			"apiVersion": version, "kind": kind, "items": items,
			"metadata": map[string]string{"resourceVersion": strconv.Itoa(w.rv)},
		})
	case r.Method == http.MethodPost && w.secret != nil:
		return apitest.Refuse(r, apierrors.NewAlreadyExists(resource, "farm-tls"))
	case r.Method == http.MethodPost:
		var o corev1.Secret
		apitest.Decode(body, &o)
		o.UID = types.UID(strconv.Itoa(w.rv))
		w.creates++
		w.put(nil, &o, false)
		return apitest.Respond(r, http.StatusCreated, w.secret)
	case secrets && w.secret == nil:
		return apitest.Refuse(r, apierrors.NewNotFound(resource, "farm-tls"))
	case r.Method == http.MethodPut:
		var o corev1.Secret
		apitest.Decode(body, &o)
		if o.ResourceVersion != w.secret.ResourceVersion || o.UID != w.secret.UID {
			return apitest.Refuse(r, conflict)
		}
		w.put(nil, &o, false)
		return apitest.Respond(r, http.StatusOK, w.secret)
	case secrets:
		return apitest.Respond(r, http.StatusOK, w.secret)
	case r.Method == http.MethodPatch:
		var o patch
		if err := json.Unmarshal(body, &o); err != nil || o.Metadata.UID != w.target.UID {
			panic(fmt.Sprint(err, o))
		}
		if o.Metadata.ResourceVersion != w.target.ResourceVersion {
			return apitest.Refuse(r, conflict)
		}
		w.edit(o.Webhooks[0].ClientConfig.CABundle, false)
		return apitest.Respond(r, http.StatusOK, w.target)
	}
	return apitest.Refuse(r, apierrors.NewMethodNotSupported(resource, r.Method))
}

// edit puts a bundle in the target. It is called with mu held.
func (w *world) edit(bundle []byte, somebody bool) {
	now := *w.target
	now.Webhooks = []webhook{{"a", &clientConfig{Service: &service{"default", "farm"}, CABundle: bundle}}}
	w.put(&now, nil, somebody)
}

// watch sends the states of an object, merged, with bookmarks.
func (w *world) watch(r *http.Request, secrets bool) *http.Response {
	reader, writer := io.Pipe()
	context.AfterFunc(r.Context(), func() { writer.CloseWithError(r.Context().Err()) })
	send := func(kind string, o any) bool {
		line, _ := json.Marshal(map[string]any{"type": kind, "object": o})
		_, err := writer.Write(line)
		return err == nil
	}
	current := func() metav1.Object {
		switch {
		case !secrets:
			return w.target
		case w.secret == nil:
			return nil
		}
		return w.secret
	}
	was := current()
	if r.URL.Query().Get("resourceVersion") != strconv.Itoa(w.rv) {
		was = nil
	}
	go func() {
		for {
			w.mu.Lock()
			now, rv, changed := current(), w.rv, w.changed
			w.mu.Unlock()
			ok := true
			switch {
			case was != nil && (now == nil || now.GetUID() != was.GetUID()):
				gone := *was.(*corev1.Secret)
				gone.ResourceVersion = strconv.Itoa(rv)
				ok = send("DELETED", &gone)
				was = nil
				if now != nil && ok {
					continue
				}
			case now != nil && was == nil:
				ok = send("ADDED", now)
			case now != nil && now.GetResourceVersion() != was.GetResourceVersion():
				ok = send("MODIFIED", now)
			}
			was = now
			if !ok {
				return
			}
			select {
			case <-changed:
			case <-time.After(4 * time.Minute): // the client gives a silent connection up after five
				mark := map[string]any{
					"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
					"metadata": map[string]string{"resourceVersion": strconv.Itoa(rv)},
				}
				if secrets {
					mark["apiVersion"], mark["kind"] = "v1", "Secret"
				}
				if !send("BOOKMARK", mark) {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}()
	return apitest.Stream(r, http.StatusOK, reader)
}

// whole checks that all replicas serve the certificate of the Secret, and that the target
// has the bundle.
func (w *world) whole(replicas ...*replica) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken.Len() > 0 {
		return errors.New(w.broken.String())
	}
	if w.secret == nil {
		return errors.New("there is no Secret")
	}
	s, err := decode(w.secret.Data)
	if err != nil || !s.whole() {
		return fmt.Errorf("the Secret is not whole: %w", err)
	}
	if !bytes.Equal(w.target.Webhooks[0].ClientConfig.CABundle, s.bundle()) {
		return errors.New("the target lacks the bundle")
	}
	for _, r := range replicas {
		if c, ok := r.serving(); r.runs() && (!ok || !c.serving.Leaf.Equal(s.serving.Leaf)) {
			return fmt.Errorf("%s serves another certificate than the Secret's", r.name)
		}
	}
	return trusts(s.bundle(), s, name, time.Now())
}

func (r *replica) end() {
	r.stop()
	<-r.ended
}
