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
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

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
		return respond(r, http.StatusOK, map[string]any{
			"apiVersion": version, "kind": kind, "items": items,
			"metadata": map[string]string{"resourceVersion": strconv.Itoa(w.rv)},
		})
	case r.Method == http.MethodPost && w.secret != nil:
		return refuse(r, apierrors.NewAlreadyExists(resource, "farm-tls"))
	case r.Method == http.MethodPost:
		var o corev1.Secret
		decodeProto(body, &o)
		o.UID = types.UID(strconv.Itoa(w.rv))
		w.creates++
		w.put(nil, &o, false)
		return respond(r, http.StatusCreated, w.secret)
	case secrets && w.secret == nil:
		return refuse(r, apierrors.NewNotFound(resource, "farm-tls"))
	case r.Method == http.MethodPut:
		var o corev1.Secret
		decodeProto(body, &o)
		if o.ResourceVersion != w.secret.ResourceVersion || o.UID != w.secret.UID {
			return refuse(r, conflict)
		}
		w.put(nil, &o, false)
		return respond(r, http.StatusOK, w.secret)
	case secrets:
		return respond(r, http.StatusOK, w.secret)
	case r.Method == http.MethodPatch:
		var o patch
		if err := json.Unmarshal(body, &o); err != nil || o.Metadata.UID != w.target.UID {
			panic(fmt.Sprint(err, o))
		}
		if o.Metadata.ResourceVersion != w.target.ResourceVersion {
			return refuse(r, conflict)
		}
		w.edit(o.Webhooks[0].ClientConfig.CABundle, false)
		return respond(r, http.StatusOK, w.target)
	}
	return refuse(r, apierrors.NewMethodNotSupported(resource, r.Method))
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
	return answered(r, http.StatusOK, reader)
}

func respond(r *http.Request, code int, o any) *http.Response {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return answered(r, code, io.NopCloser(bytes.NewReader(data)))
}

func answered(r *http.Request, code int, body io.ReadCloser) *http.Response {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: code, Header: header, Body: body, Request: r}
}

func refuse(r *http.Request, err *apierrors.StatusError) *http.Response {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return respond(r, int(status.Code), &status)
}

// decodeProto decodes a Secret that package kube has encoded.
func decodeProto(body []byte, into *corev1.Secret) {
	raw, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !ok {
		panic(fmt.Sprintf("not protobuf: %q", body))
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(raw); err != nil {
		panic(err)
	}
	if err := into.Unmarshal(envelope.Raw); err != nil {
		panic(err)
	}
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

// Replicas run for a month. One of them makes the Secret, and each change is made once.
func TestYearsOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		replicas := []*replica{w.replica(t, "a"), w.replica(t, "b"), w.replica(t, "c")}
		for range 30 {
			time.Sleep(day)
			if err := w.whole(replicas...); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range replicas {
			r.end()
		}
		time.Sleep(time.Minute)
		// In 30 days: some 6 authorities, each of which is made, switched to and dropped,
		// and some 25 certificates.
		if w.creates != 1 || w.writes < 25 || w.writes > 60 {
			t.Errorf("%d creates and %d writes of the Secret", w.creates, w.writes)
		}
	})
}

// A process dies at each of its first requests, and later at each request of a rotation,
// before or after the server has executed it. The next process goes on.
func TestCrashAtEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []bool{false, true} {
			for request := 1; request < 12; request++ {
				w := newWorld()
				a := w.replica(t, "a")
				a.dieAt(request, after)
				time.Sleep(time.Minute)
				a.end()
				for rotation := range 3 {
					b := w.replica(t, "b")
					time.Sleep(4*day + 12*time.Hour)
					b.dieAt(request, after)
					time.Sleep(day)
					b.end()
					w.mu.Lock()
					if w.broken.Len() > 0 {
						t.Fatalf("death at request %d, rotation %d: %s", request, rotation, &w.broken)
					}
					w.mu.Unlock()
				}
				c := w.replica(t, "c")
				time.Sleep(3 * time.Hour)
				if err := w.whole(c); err != nil {
					t.Fatalf("death at request %d, executed %t: %v", request, after, err)
				}
				c.end()
				time.Sleep(time.Minute)
			}
		}
	})
}

type bubbled struct{ *testing.T }

// Deadline keeps rapid from calling a method that bubbles do not have.
func (bubbled) Deadline() (time.Time, bool) { return time.Time{}, false }

// Replicas come, go and die at any request, and somebody edits the target, or deletes or
// damages the Secret. At no moment does a client with a bundle that an issuer published,
// and that the target had an hour ago at most, distrust a served certificate.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbled{t}, func(rt *rapid.T) {
			w := newWorld()
			replicas := make([]*replica, 3)
			defer func() {
				for _, r := range replicas {
					if r != nil {
						r.end()
					}
				}
				time.Sleep(time.Minute)
			}()
			come := func(i int) {
				if replicas[i] == nil || !replicas[i].runs() {
					replicas[i] = w.replica(t, string(rune('a'+i)))
				}
			}
			come(0)
			time.Sleep(time.Minute)
			which := func(rt *rapid.T) int { return rapid.IntRange(0, 2).Draw(rt, "replica") }
			check := func(rt *rapid.T) {
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, r := range replicas {
					if r != nil && r.runs() {
						if s, ok := r.serving(); ok {
							w.check(r.name, s)
						}
					}
				}
				if w.broken.Len() > 0 {
					rt.Error(w.broken.String())
				}
			}
			// lose has somebody take the Secret away from replicas that know it.
			lose := func(do func()) {
				for i, r := range replicas {
					if r == nil || !r.runs() {
						come(i)
					}
					replicas[i].dieAt(0, false)
				}
				time.Sleep(time.Minute)
				w.mu.Lock()
				do()
				close(w.changed)
				w.changed = make(chan struct{})
				w.mu.Unlock()
				time.Sleep(time.Minute)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"":     check,
				"come": func(rt *rapid.T) { come(which(rt)) },
				"go": func(rt *rapid.T) {
					if r := replicas[which(rt)]; r != nil {
						r.end()
					}
				},
				"die": func(rt *rapid.T) {
					if r := replicas[which(rt)]; r != nil {
						r.dieAt(rapid.IntRange(1, 20).Draw(rt, "requests"), rapid.Bool().Draw(rt, "after"))
					}
				},
				"wait": func(rt *rapid.T) {
					for range rapid.IntRange(1, 36).Draw(rt, "hours") {
						time.Sleep(time.Hour)
						come(which(rt)) // certificates expire if nobody runs for days
						check(rt)
					}
				},
				"moment": func(rt *rapid.T) {
					time.Sleep(time.Duration(rapid.IntRange(0, 100).Draw(rt, "ms")) * time.Millisecond)
				},
				"edit": func(rt *rapid.T) {
					w.mu.Lock()
					defer w.mu.Unlock()
					bundle := rapid.SampledFrom(w.editions).Draw(rt, "edition").bundle
					w.edit(bundle, true)
				},
				"delete": func(*rapid.T) {
					lose(func() { w.secret = nil; w.rv++ })
				},
				"damage": func(rt *rapid.T) {
					key := rapid.SampledFrom([]string{servingCert, servingKey, bundleCerts}).Draw(rt, "key")
					lose(func() {
						damaged := w.secret.DeepCopy()
						damaged.Data[key] = slices.Clone(damaged.Data[key][:len(damaged.Data[key])/2])
						w.put(nil, damaged, true)
					})
				},
			})
			for i, r := range replicas {
				if r != nil {
					r.end()
				}
				come(i)
			}
			time.Sleep(3 * time.Hour)
			check(rt)
			if err := w.whole(replicas...); err != nil {
				rt.Error(err)
			}
		})
	})
}
