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

// Trouble is the error that a watch or a store reports while it goes on by itself. It is
// reported when the trouble starts, when its cause changes, and every five minutes while
// it lasts. Troubles that come and go quickly are reported less often. If a server says
// when to ask again, that is reported only after five seconds. The end of a trouble is no
// error: a watch yields a Recovered event, and a store logs it. The counterpart is the
// WatchErrorHandler of client-go's reflector.
//
// An object or an event that cannot be read is a Trouble too. It is left out, and Tries
// counts how many were left out.
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
	// flapsReported is how many troubles in a row are each reported. Troubles are in a
	// row if each begins less than five minutes after the end of the one before.
	flapsReported = 3
	// patience is how long a server may say when to ask again before that counts as
	// trouble. A server does so for a moment when a kind has just been installed.
	patience = 5 * time.Second
	// unreadFor is how long an object that could not be read counts as trouble.
	unreadFor = time.Minute
)

// stage tells how far a reflector came before it failed. A trouble is over when the same
// stage, or a later one, is passed: a listing that works says nothing about watches that
// do not work.
type stage int

const (
	inListing   stage = iota // no list was received
	inRequest                // no watch was begun, or a watch that worked broke off
	beforeEvent              // the watch was begun and told nothing
)

// troubles holds the troubles that a reflector has to report.
type troubles struct {
	unread   bool      // the troubles are about objects
	now      *Trouble  // nil: no trouble
	in       stage     // the latest stage of now
	reported time.Time // the last report
	flaps    int       // troubles in a row
	told     bool      // now was reported
	causes   []string  // the reported causes of now
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

// postponed reports that a server has just begun to say when to ask again.
func (t *troubles) postponed() bool {
	_, asked := suggestedDelay(t.now.Err)
	return asked && !t.told && time.Since(t.now.Since) < patience
}

// current returns a copy of the present trouble, or nil if there is none.
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

// causeOf returns equal causes for troubles that people deal with in the same way.
func causeOf(err error) string {
	causes := []error{ErrUnreachable, ErrNotServed, errSilent, errBroken, errStale, wire.ErrAnswer, errNothing,
		wire.ErrTooLarge}
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

// over notes that a stage was passed. It returns the trouble that ended with the stage,
// if that trouble was reported.
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

// laneTroubles holds the troubles of a table's watches. There is one watch for each
// namespace.
type laneTroubles struct {
	mu sync.Mutex
	of map[string]*Trouble
}

// set notes the trouble of a namespace's watch, or nil if there is none.
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

// longest returns the trouble that has lasted longest, or nil if there is none.
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
