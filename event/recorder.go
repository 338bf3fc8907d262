package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/kube"
)

// Recorder takes note of events and, while it runs, writes them. Client and
// Controller are required; the zero value of the rest has defaults. It must not
// be copied once it is used. Its methods may be called from any goroutine.
//
// The program needs the right to create and patch events of events.k8s.io, in
// the namespaces of the objects, and in "default" for objects that have none.
type Recorder struct {
	Client *kube.Client
	// Controller names the program, in the form of a label's key, as in
	// example.com/echo-operator.
	Controller string
	// Instance names the process. Default: the controller's name without its
	// prefix, and the host's name.
	Instance string
	// Grace is how long Run goes on, once its context has ended, to write what
	// is left. Default: 5 seconds.
	Grace time.Duration
	// Logger gets what could not be recorded or written. Default: slog.Default().
	Logger *slog.Logger

	mu       sync.Mutex
	state    correlator
	wake     chan struct{} // holds a token when something is to be written
	stopped  bool
	dropped  int
	reported time.Time // when dropped events were last spoken of
}

// Object is what events are about: an object that package kube has read, or one
// that names its kind.
type Object interface {
	metav1.Object
	GetObjectKind() schema.ObjectKind
}

// Event is a Kubernetes Event to be written: a note for people about something that
// happened to an object. The events that a watch yields are of another type,
// [kube.WatchEvent].
type Event struct {
	// Regarding is the object it is about; Related another that it involves,
	// if any.
	Regarding, Related Object
	// Warning: somebody should look at it.
	Warning bool
	// Reason is why it is told, for machines: a short word in CamelCase, as in
	// "ScalingFailed".
	Reason string
	// Action is what was done or tried, in CamelCase too. Default: "Reconcile".
	Action string
	// Note says it to people. It is cut after 1024 bytes.
	Note string
}

// Normal records that something went well.
func (r *Recorder) Normal(regarding Object, reason, format string, args ...any) {
	r.Record(Event{Regarding: regarding, Reason: reason, Note: fmt.Sprintf(format, args...)})
}

// Warning records that something went wrong.
func (r *Recorder) Warning(regarding Object, reason, format string, args ...any) {
	r.Record(Event{Regarding: regarding, Warning: true, Reason: reason, Note: fmt.Sprintf(format, args...)})
}

// Failure records a Warning with an error, unless a Warning about the object that was
// recorded after since has said it: one whose note has the text of the error, or of
// an error that it wraps.
func (r *Recorder) Failure(regarding Object, since time.Time, reason string, err error) {
	if id, ierr := reference(regarding); ierr == nil && r.warned(id, since, err) {
		return
	}
	r.Warning(regarding, reason, "%v", err)
}

// warned reports that a Warning has said an error.
func (r *Recorder) warned(regarding corev1.ObjectReference, since time.Time, err error) bool {
	r.mu.Lock()
	b := r.state.buckets[regarding]
	said := b != nil && !b.warned.Before(since)
	note := ""
	if said {
		note = b.note
	}
	r.mu.Unlock()
	return said && says(note, err)
}

// says reports that a note has the text of an error, or of one that it wraps.
func says(note string, err error) bool {
	if err == nil {
		return false
	}
	if text := clean(err.Error()); text != "" && strings.Contains(note, strings.TrimSuffix(text, cutMark)) {
		return true
	}
	switch wraps := err.(type) { //nolint:errorlint // each error of the chain is looked at
	case interface{ Unwrap() error }:
		return says(note, wraps.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range wraps.Unwrap() {
			if !says(note, err) {
				return false
			}
		}
		return len(wraps.Unwrap()) > 0
	}
	return false
}

// Record records an event. One that cannot be written, because its object or its
// reason lacks something, is said in the log instead.
func (r *Recorder) Record(e Event) {
	id, err := identify(e)
	if err != nil {
		r.log().Warn("cannot record an event", "error", err, "reason", e.Reason, "note", e.Note)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.stopped || !r.state.observe(id, now) {
		r.dropped++
		r.reportDropped(now)
	}
	select {
	case r.waker() <- struct{}{}:
	default:
	}
}

// waker is called with mu held.
func (r *Recorder) waker() chan struct{} {
	if r.wake == nil {
		r.wake = make(chan struct{}, 1)
	}
	return r.wake
}

// reportDropped says once in a while that events were dropped. It is called with
// mu held.
func (r *Recorder) reportDropped(now time.Time) {
	if now.Sub(r.reported) < reportAfter {
		return
	}
	r.log().Info("events were dropped: an object has too many of them, or they cannot be written", "count", r.dropped)
	r.reported, r.dropped = now, 0
}

const reportAfter = 10 * time.Minute

func (r *Recorder) log() *slog.Logger {
	if r.Logger == nil {
		return slog.Default()
	}
	return r.Logger
}

// reporter returns who reports.
func (r *Recorder) reporter() (controller, instance string, err error) {
	if r.Client == nil {
		return "", "", errors.New("the recorder has no client")
	}
	if wrong := validation.IsQualifiedName(r.Controller); len(wrong) > 0 {
		return "", "", fmt.Errorf("controller %q: %s", r.Controller, strings.Join(wrong, ", "))
	}
	instance = r.Instance
	if instance == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", "", fmt.Errorf("name the instance: %w", err)
		}
		_, name, _ := strings.Cut(r.Controller, "/")
		instance = cut(cmp.Or(name, r.Controller)+"-"+host, maxWord)
	}
	if len(instance) > maxWord {
		return "", "", fmt.Errorf("instance %q is longer than %d bytes", instance, maxWord)
	}
	return r.Controller, instance, nil
}

// The API server's limits, in bytes.
const (
	maxWord = 128
	maxNote = 1024
)

var camelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// identify checks an event and makes of it what tells it from others.
func identify(e Event) (identity, error) {
	id := identity{warning: e.Warning, reason: e.Reason, action: cmp.Or(e.Action, "Reconcile"), note: clean(e.Note)}
	for name, word := range map[string]string{"reason": id.reason, "action": id.action} {
		if len(word) > maxWord || !camelCase.MatchString(word) {
			return id, fmt.Errorf("%s %q is not a word in CamelCase of at most %d letters", name, word, maxWord)
		}
	}
	var err error
	if id.regarding, err = reference(e.Regarding); err != nil {
		return id, err
	}
	if e.Related != nil {
		id.related, err = reference(e.Related)
	}
	return id, err
}

func reference(o Object) (corev1.ObjectReference, error) {
	if o == nil {
		return corev1.ObjectReference{}, errors.New("the event is about no object")
	}
	gvk := o.GetObjectKind().GroupVersionKind()
	if named, ok := o.(interface{ GVK() kube.GVK }); ok && gvk.Empty() {
		gvk = named.GVK()
	}
	if gvk.Empty() || o.GetName() == "" {
		return corev1.ObjectReference{}, fmt.Errorf("an object of type %T does not say its kind and name, which are %q and %q: was it read from the server?", o, gvk.Kind, o.GetName())
	}
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}, nil
}

// clean makes of a text what the server takes.
func clean(note string) string {
	return cut(strings.ToValidUTF8(note, "\uFFFD"), maxNote)
}

const cutMark = "…"

// cut cuts off what is more than limit bytes, between characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len(cutMark)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cutMark
}

// Run writes events until ctx ends and then, for at most Grace, what is left of
// them. It returns an error only if the recorder cannot work at all. Events that
// were recorded before are written too, those after are dropped.
func (r *Recorder) Run(ctx context.Context) error {
	controller, instance, err := r.reporter()
	if err != nil {
		return fmt.Errorf("run event recorder: %w", err)
	}
	w := &writer{
		Recorder:   r,
		events:     kube.For[eventsv1.Event](r.Client),
		controller: controller,
		instance:   instance,
	}
	w.run(ctx)
	r.mu.Lock()
	r.stopped = true
	left := r.state.unwritten()
	r.mu.Unlock()
	if left > 0 {
		r.log().Warn("events were not written before the end", "count", left)
	}
	return nil
}
