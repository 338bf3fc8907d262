package kube

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Trouble is the error that a watch or a store reports while it goes on by itself:
// when the trouble starts, when its cause becomes another, and every five minutes
// while it lasts. Troubles that come and go quickly are reported less often, and a
// server that says when to ask again only after five seconds. The end of a trouble
// is no error: a watch yields a Recovered event, and a store logs it.
//
// An object or an event that cannot be read is a Trouble too. It is left out, and
// Tries counts how many were.
type Trouble struct {
	// Err is the latest failure.
	Err   error
	Since time.Time
	// Tries is the number of failures so far.
	Tries int

	unread bool // Err is about an object, not about the connection
	latest time.Time
}

func (t *Trouble) Error() string {
	switch {
	case t.unread && t.Tries <= 1:
		return fmt.Sprintf("%v; it is left out", t.Err)
	case t.unread:
		return fmt.Sprintf("%v; %d were left out since %s", t.Err, t.Tries, t.lasted())
	case t.Tries <= 1:
		return fmt.Sprintf("%v; trying again", t.Err)
	}
	return fmt.Sprintf("%v; trying again since %s, %d times", t.Err, t.lasted(), t.Tries)
}

func (t *Trouble) lasted() time.Duration { return time.Since(t.Since).Round(time.Millisecond) }

func (t *Trouble) Unwrap() error { return t.Err }

const (
	troubleAgainAfter = 5 * time.Minute
	// flapsReported is how many troubles in a row, of which none begins five
	// minutes after the end of the one before, are each reported.
	flapsReported = 3
	// patience is how long a server may say when to ask again until that is a
	// trouble. It does so for a moment when a kind has just been installed.
	patience = 5 * time.Second
	// unreadFor is how long an object that could not be read is a trouble.
	unreadFor = time.Minute
)

// stage is how far a reflector came before it failed. A trouble is over when the
// same stage, or a later one, is passed: a listing that works says nothing about
// watches that do not.
type stage int

const (
	inListing   stage = iota // no list was had
	inRequest                // no watch was begun, or a watch that worked broke off
	beforeEvent              // the watch was begun and told nothing
)

// troubles keeps what a reflector has to report.
type troubles struct {
	unread   bool      // they are about objects
	now      *Trouble  // nil: all is well
	in       stage     // the latest of now
	reported time.Time // the last report
	flaps    int       // troubles in a row
	told     bool      // now was reported
	causes   []string  // those of now that were reported
	ended    time.Time // the end of the last trouble
}

// failed notes a failure and returns a report, if one is due.
func (t *troubles) failed(err error, in stage) *Trouble {
	recent := time.Since(t.reported) < troubleAgainAfter
	if t.now == nil {
		t.now, t.told, t.causes, t.in = &Trouble{Since: time.Now(), unread: t.unread}, false, nil, in
		t.flaps++
		if time.Since(t.ended) >= troubleAgainAfter {
			t.flaps = 1
		}
	}
	t.in = max(t.in, in)
	t.now.Err, t.now.latest = err, time.Now()
	t.now.Tries++
	cause := ""
	if !t.unread {
		cause = causeOf(err)
	}
	switch {
	case t.postponed():
		return nil
	case !recent:
	case t.flaps > flapsReported, slices.Contains(t.causes, cause):
		return nil
	}
	t.reported, t.told, t.causes = time.Now(), true, append(t.causes, cause)
	return t.copy()
}

// postponed reports a server that has just begun to ask for time.
func (t *troubles) postponed() bool {
	_, asked := suggestedDelay(t.now.Err)
	return asked && !t.told && time.Since(t.now.Since) < patience
}

// current returns a copy of the trouble that there is, nil if there is none.
func (t *troubles) current() *Trouble {
	if t.now == nil || t.postponed() {
		return nil
	}
	return t.copy()
}

func (t *troubles) copy() *Trouble {
	report := *t.now
	return &report
}

// causeOf tells troubles apart that need different things done about them.
func causeOf(err error) string {
	causes := []error{ErrUnreachable, ErrNotServed, errSilent, errBroken, errStale, wire.ErrAnswer, errNothing, wire.ErrTooLarge}
	for _, cause := range causes {
		if errors.Is(err, cause) {
			return cause.Error()
		}
	}
	if code := codeOf(err); code != 0 {
		return strconv.Itoa(code)
	}
	return ""
}

// over notes that a stage was passed, and returns the trouble that ended with it,
// if it was reported.
func (t *troubles) over(in stage) *Trouble {
	if t.now == nil || t.in > in {
		return nil
	}
	was := t.now
	t.now, t.ended = nil, time.Now()
	if !t.told {
		return nil
	}
	return was
}

// laneTroubles are the troubles of a table's watches, of which there is one for
// each namespace.
type laneTroubles struct {
	mu sync.Mutex
	of map[string]*Trouble
}

// set notes the trouble of a namespace's watch, nil if it has none.
func (l *laneTroubles) set(namespace string, t *Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t == nil {
		delete(l.of, namespace)
		return
	}
	if l.of == nil {
		l.of = make(map[string]*Trouble)
	}
	l.of[namespace] = t
}

// longest returns the trouble that has lasted longest, nil if there is none.
func (l *laneTroubles) longest() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var longest *Trouble
	for _, t := range l.of {
		if t.unread && time.Since(t.latest) >= unreadFor {
			continue
		}
		if longest == nil || t.Since.Before(longest.Since) {
			longest = t
		}
	}
	if longest == nil {
		return nil
	}
	return longest
}
