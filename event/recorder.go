package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
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

// Recorder records events and, while it runs, writes them. Client and Controller are
// required; every other field has a default. A Recorder must not be copied after its
// first use. Its methods may be called from any goroutine. The counterparts are
// record.EventRecorder and events.EventRecorder in client-go, and Recorder in kube-rs
// (kube::runtime::events).
//
// The program needs the right to create and patch events of events.k8s.io, in the
// namespaces of the objects, and in "default" for objects without a namespace.
type Recorder struct {
	Client *kube.Client
	// Controller is the name of the program, in the form of a label's key, as in
	// example.com/echo-operator. The API calls it reportingController.
	Controller string
	// Instance is the name of the process. The API calls it reportingInstance. Default:
	// the controller's name without its prefix, and the host's name. Its counterpart is
	// Reporter.instance of kube-rs.
	Instance string
	// Logger gets the events that could not be recorded or written. Default:
	// slog.Default(). Its counterpart is Logger of controller-runtime's manager.Options.
	Logger *slog.Logger

	// grace is the time for which Run, after its context has ended, goes on writing the
	// remaining events. Tests set it. Default: defaultGrace.
	grace time.Duration

	mu       sync.Mutex
	state    correlator
	wake     chan struct{} // holds a token when an event waits to be written
	turn     chan struct{} // holds a token while a Run writes
	runs     int           // the calls of Run that have not returned
	stopped  bool
	dropped  int
	reported time.Time            // when dropped events were last logged
	lines    []func(*slog.Logger) // to be logged when mu is not held any more
}

// say has unlock write a log line. It is called with mu held.
func (r *Recorder) say(line func(*slog.Logger)) { r.lines = append(r.lines, line) }

// unlock gives mu up, and then writes the log lines: a log handler may record events.
func (r *Recorder) unlock() {
	lines := r.lines
	r.lines = nil
	r.mu.Unlock()
	for _, line := range lines {
		line(r.log())
	}
}

// Object is the object of an event: one that package kube has read, or one that has its
// kind set.
type Object interface {
	metav1.Object
	GetObjectKind() schema.ObjectKind
}

// Event is a Kubernetes Event to be written: a note for people about something that
// happened to an object. The events that a watch yields are of another type,
// [kube.WatchEvent]. Its counterparts are the arguments of Eventf in client-go's
// events.EventRecorder, and Event of kube-rs.
type Event struct {
	// Regarding is the object of the event. Related is another object that is involved,
	// if any.
	Regarding, Related Object
	// Warning marks an event that a person should look at. The API calls it type Warning.
	Warning bool
	// Reason is the cause of the event, for machines: a short word in CamelCase, as in
	// "ScalingFailed".
	Reason string
	// Action is the action that was done or tried, in CamelCase too. Default:
	// "Reconcile".
	Action string
	// Note is the text for people. It is cut after 1024 bytes.
	Note string
}

// Normal records an event of type Normal: something went well. Its counterparts are Eventf
// of events.EventRecorder in client-go, and Recorder.publish of kube-rs.
func (r *Recorder) Normal(regarding Object, reason, format string, args ...any) {
	r.Record(Event{Regarding: regarding, Reason: reason, Note: fmt.Sprintf(format, args...)})
}

// Warning records an event of type Warning: something went wrong. Its counterparts are those
// of Normal.
func (r *Recorder) Warning(regarding Object, reason, format string, args ...any) {
	r.Record(Event{Regarding: regarding, Warning: true, Reason: reason, Note: fmt.Sprintf(format, args...)})
}

// Failure records a Warning with an error, unless another Warning about the object that
// was recorded after since already contains the error. Its note then contains the text of
// the error, or of an error that it wraps.
func (r *Recorder) Failure(regarding Object, since time.Time, reason string, err error) {
	if id, ierr := reference(regarding); ierr == nil && r.warned(id, since, err) {
		return
	}
	r.Warning(regarding, reason, "%v", err)
}

// warned reports whether a Warning contains the error.
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

// says reports whether a note contains the text of an error, or of an error that it
// wraps.
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

// Record records an event. If an event cannot be written because its object or its reason
// is incomplete, Record logs that instead.
func (r *Recorder) Record(e Event) {
	id, err := identify(e)
	if err != nil {
		r.log().Warn("cannot record an event", "error", err, "reason", e.Reason, "note", e.Note)
		return
	}
	r.mu.Lock()
	defer r.unlock()
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

// reportDropped logs from time to time that events were dropped. It is called with mu
// held.
func (r *Recorder) reportDropped(now time.Time) {
	if now.Sub(r.reported) < reportAfter {
		return
	}
	count := r.dropped
	r.say(func(log *slog.Logger) {
		log.Info("events were dropped: an object has too many events, or writes fail", "count", count)
	})
	r.reported, r.dropped = now, 0
}

const reportAfter = 10 * time.Minute

func (r *Recorder) log() *slog.Logger {
	if r.Logger == nil {
		return slog.Default()
	}
	return r.Logger
}

// reporter returns the names of the controller and the instance.
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

// identify checks an event and returns its identity, by which it differs from others.
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
	if !isNil(e.Related) {
		id.related, err = reference(e.Related)
	}
	return id, err
}

func reference(o Object) (corev1.ObjectReference, error) {
	if isNil(o) {
		return corev1.ObjectReference{}, errors.New("the event has no object that it regards")
	}
	gvk := o.GetObjectKind().GroupVersionKind()
	if named, ok := o.(interface{ GVK() kube.GVK }); ok && gvk.Empty() {
		gvk = named.GVK()
	}
	if gvk.Empty() || o.GetName() == "" {
		return corev1.ObjectReference{}, fmt.Errorf(
			"an object of type %T does not have both a kind and a name (%q and %q): was it read from the server?", o, gvk.Kind,
			o.GetName(),
		)
	}
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return corev1.ObjectReference{
		APIVersion: apiVersion, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
	}, nil
}

// isNil reports whether an object is nil, or a nil pointer of its type.
func isNil(o Object) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// clean makes a text acceptable to the server.
func clean(note string) string {
	return cut(strings.ToValidUTF8(note, "\uFFFD"), maxNote)
}

const cutMark = "…"

// cut shortens a text to limit bytes, between characters.
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

// Run writes events until ctx ends and then, for at most 5 seconds, the remaining ones. It
// returns an error only if the recorder cannot work at all. Events that were recorded
// before the call are written too. Events recorded after the end are dropped, until Run is
// called again. If several goroutines call Run, one of them writes, and another one takes
// over when it ends. Its counterpart is StartRecordingToSinkWithContext of client-go's
// events.EventBroadcaster.
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
	turn := r.enter()
	defer r.exit()
	select {
	case turn <- struct{}{}:
	default:
		select { // another goroutine writes
		case turn <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
	}
	defer func() { <-turn }()
	w.run(ctx)
	return nil
}

// enter begins a Run. It returns the channel that takes a token from the one that writes.
func (r *Recorder) enter() (turn chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn == nil {
		r.turn = make(chan struct{}, 1)
	}
	r.runs++
	r.stopped = false
	return r.turn
}

// exit ends a Run. The last one says how many events are left.
func (r *Recorder) exit() {
	r.mu.Lock()
	defer r.unlock()
	r.runs--
	r.stopped = r.runs == 0
	if left := r.state.unwritten(); left > 0 && r.stopped {
		r.say(func(log *slog.Logger) {
			log.Warn("the recorder stopped before all events were written", "count", left)
		})
	}
}
