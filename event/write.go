package event

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/kube"
)

// writer is a recorder that runs.
type writer struct {
	*Recorder
	events               kube.Resource[eventsv1.Event]
	controller, instance string
	troubled             bool
}

const (
	sweepEvery  = 10 * time.Second
	writeWithin = 30 * time.Second
	minPause    = time.Second
	maxPause    = time.Minute
)

func (w *writer) run(ctx context.Context) {
	w.mu.Lock()
	wake := w.waker()
	w.mu.Unlock()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	wait := minPause
	paused := true // by the timer, which is due now
	for ctx.Err() == nil {
		if !paused && !w.writeAll(ctx) {
			// The server cannot be reached: it would not be better for others.
			paused = true
			pause.Reset(wait)
			wait = min(2*wait, maxPause)
		} else if !paused {
			wait = minPause
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-pause.C:
			paused = false
		case <-sweep.C:
			w.mu.Lock()
			w.state.sweep(time.Now(), false)
			w.mu.Unlock()
		}
	}
	w.flush(ctx)
}

// flush writes what is left, once, for as long as the grace lets it.
func (w *writer) flush(ctx context.Context) {
	grace := w.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	w.mu.Lock()
	w.state.sweep(time.Now(), true)
	w.mu.Unlock()
	for !w.writeAll(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(minPause):
		}
	}
}

const defaultGrace = 5 * time.Second

// writeAll writes what is queued. It returns false if the server cannot be
// reached or ctx has ended.
func (w *writer) writeAll(ctx context.Context) bool {
	for ctx.Err() == nil {
		w.mu.Lock()
		s := w.state.next()
		var e *eventsv1.Event
		var written, count int32
		if s != nil {
			e, written, count = w.event(s), s.written, s.count
		}
		w.mu.Unlock()
		if s == nil {
			return true
		}
		err := w.write(ctx, e, written)
		w.mu.Lock()
		retry := false
		switch {
		case err == nil:
			w.state.wrote(s, count, time.Now())
		case temporary(err):
			retry = w.state.failed(s)
		default:
			w.state.forget(s)
		}
		w.mu.Unlock()
		w.report(ctx, err, retry)
		if retry {
			return false
		}
	}
	return false
}

// report says when writing begins to fail, and when it works again.
func (w *writer) report(ctx context.Context, err error, retry bool) {
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil && !w.troubled:
		w.log().Warn("cannot write events", "error", err, "retry", retry)
	case err == nil && w.troubled:
		w.log().Info("events are written again")
	}
	w.troubled = err != nil
}

// event returns a series as it is to be written. It is called with mu held.
func (w *writer) event(s *series) *eventsv1.Event {
	e := &eventsv1.Event{
		EventTime:           metav1.NewMicroTime(s.first),
		ReportingController: w.controller,
		ReportingInstance:   w.instance,
		Action:              s.action,
		Reason:              s.reason,
		Regarding:           s.regarding,
		Note:                s.note,
		Type:                "Normal",
	}
	if s.warning {
		e.Type = "Warning"
	}
	if s.related.Name != "" {
		related := s.related
		e.Related = &related
	}
	if s.count > 1 {
		e.Series = &eventsv1.EventSeries{Count: s.count, LastObservedTime: metav1.NewMicroTime(s.last)}
	}
	if s.name == "" {
		s.name = eventName(s.regarding.Name)
	}
	e.Name, e.Namespace = s.name, s.regarding.Namespace
	if e.Namespace == "" {
		e.Namespace = metav1.NamespaceDefault
	}
	return e
}

// eventName returns a name that shows what the event is about.
func eventName(about string) string {
	unique := strings.ToLower(rand.Text()[:16])
	if name := about + "." + unique; len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return "event." + unique
}

// write creates an Event, or has the one that was created count.
func (w *writer) write(ctx context.Context, e *eventsv1.Event, written int32) error {
	ctx, cancel := context.WithTimeoutCause(ctx, writeWithin, fmt.Errorf("no answer within %s", writeWithin))
	defer cancel()
	if written > 0 {
		if err := w.count(ctx, e); !apierrors.IsNotFound(err) {
			return err
		}
		// The server has forgotten it meanwhile.
	}
	_, err := w.events.In(e.Namespace).Create(ctx, e)
	if apierrors.IsAlreadyExists(err) {
		// By a request of ours whose answer was lost, and which knew less.
		if err = nil; e.Series != nil {
			err = w.count(ctx, e)
		}
	}
	return err
}

// count writes how often an Event has happened.
func (w *writer) count(ctx context.Context, e *eventsv1.Event) error {
	patch, err := json.Marshal(map[string]any{"series": e.Series})
	if err != nil {
		return err
	}
	_, err = w.events.In(e.Namespace).Patch(ctx, e.Name, types.MergePatchType, patch)
	return err
}

// temporary reports that a write may succeed if it is tried again: that is so
// without an answer of the server, and with some.
func temporary(err error) bool {
	if errors.Is(err, kube.ErrNotServed) {
		return false
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= 500 || code == 429 || code == 401
}
