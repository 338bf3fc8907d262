package event

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/kube"
)

// writer is a running recorder. One goroutine decides which events are written; each
// request has a goroutine of its own.
type writer struct {
	*Recorder
	events               kube.Resource[eventsv1.Event]
	controller, instance string

	results  chan result
	underWay int
	// away is set while the server cannot be reached. Before until, no request is made
	// for any namespace.
	away  bool
	until time.Time
	pause time.Duration
	told  time.Time // when a failing namespace was last logged
}

// result is the result of a request.
type result struct {
	series *series
	count  int32 // of the series, as it was sent
	err    error
}

const (
	sweepEvery  = 10 * time.Second
	writeWithin = 30 * time.Second
	// maxUnderWay is the number of concurrent requests, each for another namespace.
	maxUnderWay = 8
)

func (w *writer) run(ctx context.Context) {
	// Requests in flight at the end of ctx go on in the grace period.
	writing, cut := context.WithCancel(context.WithoutCancel(ctx))
	w.results = make(chan result, maxUnderWay)
	w.pause = minPause
	defer func() {
		cut()
		for ; w.underWay > 0; w.underWay-- {
			w.breakOff(<-w.results)
		}
	}()
	w.mu.Lock()
	wake := w.waker()
	w.mu.Unlock()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop, stopping := ctx.Done(), false
	var over <-chan time.Time
	for {
		due, waiting := w.start(writing)
		if stopping && w.underWay == 0 && !waiting {
			return
		}
		if waiting {
			timer.Reset(max(0, time.Until(due)))
		} else {
			timer.Stop()
		}
		select {
		case <-stop: // write all remaining events, once
			stop, stopping = nil, true
			w.hurry()
			over = time.After(cmp.Or(w.grace, defaultGrace))
		case <-over:
			return
		case <-wake: // an event was recorded
		case <-timer.C: // a pause is over
		case r := <-w.results:
			w.underWay--
			w.settle(r, stopping)
		case now := <-sweep.C:
			w.mu.Lock()
			w.state.sweep(now, false)
			w.mu.Unlock()
		}
	}
}

const defaultGrace = 5 * time.Second

// hurry makes all unwritten events due.
func (w *writer) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.sweep(time.Now(), true)
	w.state.lanes.hurry(time.Now())
	w.until, w.pause = time.Time{}, minPause
}

// start makes the requests that are due, as many as are allowed. It returns the time at
// which it must be called again, if that is not after a result.
func (w *writer) start(ctx context.Context) (due time.Time, waiting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for w.underWay < maxUnderWay && !now.Before(w.until) {
		s := w.state.lanes.next(now)
		if s == nil {
			break
		}
		e, written, count := w.event(s), s.written, s.count
		s.sent = count
		w.underWay++
		go func() { w.results <- result{s, count, w.write(ctx, e, written)} }()
	}
	if w.underWay == maxUnderWay {
		return time.Time{}, false
	}
	due, waiting = w.state.lanes.due()
	if due.Before(w.until) {
		due = w.until
	}
	return due, waiting
}

// settle processes the result of a request. While the program stops, a namespace that
// refuses is asked once.
func (w *writer) settle(r result, stopping bool) {
	w.mu.Lock()
	defer w.unlock()
	now, s, err := time.Now(), r.series, r.err
	lane := w.state.lanes.of(s)
	answered := err == nil || hasStatus(err)
	if answered && w.away {
		w.away, w.pause = false, minPause
		w.say(func(log *slog.Logger) { log.Info("the server accepts events again") })
	}
	w.tell(lane, err, now)
	switch {
	case err == nil:
		w.state.wrote(s, r.count, now)
		return
	case temporary(err):
		w.state.failed(s, now)
	default:
		about := aboutNamespace(err)
		if w.state.refused(s, about, now); about && stopping {
			w.state.giveUp(s, now)
		}
	}
	if unreachable(err) { // other namespaces would fail too
		w.away = true
		w.until = now.Add(w.pause)
		w.pause = min(2*w.pause, maxPause)
	}
}

// breakOff processes the result of a request that was broken off at the end. The next run
// makes the request again.
func (w *writer) breakOff(r result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.err == nil {
		w.state.wrote(r.series, r.count, time.Now())
		return
	}
	w.state.brokenOff(r.series, time.Now())
}

// tell logs that a namespace begins to fail, and that it works again. If many namespaces
// fail, it logs one a minute. It is called with mu held.
func (w *writer) tell(lane *lane, err error, now time.Time) {
	switch {
	case err == nil && lane.told:
		lane.told = false
		w.say(func(log *slog.Logger) { log.Info("writing of events succeeds again", "namespace", lane.namespace) })
	case err != nil && !lane.told && !w.away && now.Sub(w.told) >= tellAfter:
		lane.told, w.told = true, now
		w.say(func(log *slog.Logger) {
			log.Warn("cannot write events", "namespace", lane.namespace, "error", err, "retry", temporary(err))
		})
	}
}

const tellAfter = time.Minute

// event returns the Event to be written for a series. It is called with mu held.
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

// eventName returns a name that contains the name of the regarding object.
func eventName(about string) string {
	unique := strings.ToLower(rand.Text()[:16])
	if name := about + "." + unique; len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return "event." + unique
}

// write creates an Event, or increases the count of an Event that was created.
func (w *writer) write(ctx context.Context, e *eventsv1.Event, written int32) error {
	ctx, cancel := context.WithTimeoutCause(ctx, writeWithin, errNoAnswer)
	defer cancel()
	if written > 0 {
		if err := w.count(ctx, e); !apierrors.IsNotFound(err) {
			return err
		}
		// The server has deleted the Event meanwhile.
	}
	_, err := w.events.In(e.Namespace).Create(ctx, e)
	if apierrors.IsAlreadyExists(err) {
		// An earlier request of ours, whose answer was lost, has created it with a lower
		// count.
		if err = nil; e.Series != nil {
			err = w.count(ctx, e)
		}
	}
	return err
}

var errNoAnswer = fmt.Errorf("no answer within %s", writeWithin)

// count writes the count of an Event.
func (w *writer) count(ctx context.Context, e *eventsv1.Event) error {
	patch, err := json.Marshal(map[string]any{"series": e.Series})
	if err != nil {
		return err
	}
	_, err = w.events.In(e.Namespace).Patch(ctx, e.Name, types.MergePatchType, patch)
	return err
}

// temporary reports whether a write may succeed if it is retried. That is so if the
// server did not answer, and for some of its answers.
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

// aboutNamespace reports whether the server would refuse other events of the namespace
// too: the namespace is terminating, gone, or over its quota, or the program has no right
// there.
func aboutNamespace(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || errors.Is(err, kube.ErrNotServed)
}

func hasStatus(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

// unreachable reports that there was no answer for a reason other than a timeout. A
// timeout may be caused by one namespace.
func unreachable(err error) bool {
	return !hasStatus(err) && !errors.Is(err, kube.ErrNotServed) && !errors.Is(err, errNoAnswer)
}
