package page

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
)

// Remember returns a function that calls reconcile, and remembers when and why it was
// called, how long it took, and its error. It is for the Reconcile and the Cleanup of a
// controller. The last 10 calls and the last 5 errors of an owner are kept in memory, for
// the 1000 owners that were reconciled last. That takes a few megabytes at most.
func (p *Page[T]) Remember(
	reconcile func(context.Context, *T) (controller.Action, error),
) func(context.Context, *T) (controller.Action, error) {
	return func(ctx context.Context, o *T) (action controller.Action, err error) {
		owner := any(o).(metav1.Object).GetUID()
		t := turn{At: time.Now(), Causes: causesOf(ctx)}
		t.Error = "it panicked: see the log" // unless it returns
		defer func() {
			t.Millis = time.Since(t.At).Milliseconds()
			p.recent.add(owner, t)
		}()
		action, err = reconcile(ctx, o)
		t.Error = ""
		if err != nil {
			t.Error = short(cmp.Or(err.Error(), "an error without a text"))
		}
		return action, err
	}
}

// turn is a call of Reconcile or Cleanup that has ended.
type turn struct {
	At     time.Time `json:"at"`
	Millis int64     `json:"millis"`
	Causes []string  `json:"causes"`
	Error  string    `json:"error,omitempty"`
}

func causesOf(ctx context.Context) []string {
	causes := []string{}
	for _, c := range controller.Causes(ctx) {
		causes = append(causes, short(c.String()))
	}
	return causes
}

// maxText is how many bytes of a text are kept.
const maxText = 1000

func short(text string) string {
	if len(text) > maxText {
		return text[:maxText] + " …"
	}
	return text
}

const (
	turnsKept  = 10   // of an owner
	errorsKept = 5    // of an owner
	ownersKept = 1000 // in memory
)

// recent remembers the last turns of owners. Its zero value is empty.
type recent struct {
	mu    sync.Mutex
	of    map[types.UID]*memory
	added chan struct{} // closed at the next addition; nil: nobody waits
}

// memory has the last turns of an owner, the latest first.
type memory struct{ turns, failed []turn }

func (r *recent) add(owner types.UID, t turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.of[owner]
	if m == nil {
		r.makeRoom()
		m = new(memory)
		r.of[owner] = m
	}
	m.turns = latest(m.turns, t, turnsKept)
	if t.Error != "" {
		m.failed = latest(m.failed, t, errorsKept)
	}
	if r.added != nil {
		close(r.added)
		r.added = nil
	}
}

// latest returns the turns with one more. It changes no slice that somebody may be reading.
func latest(turns []turn, t turn, kept int) []turn {
	return slices.Concat([]turn{t}, turns[:min(len(turns), kept-1)])
}

// makeRoom forgets the owner whose last turn was first.
func (r *recent) makeRoom() {
	if r.of == nil {
		r.of = make(map[types.UID]*memory)
	}
	if len(r.of) < ownersKept {
		return
	}
	var oldest types.UID
	for owner, m := range r.of {
		if oldest == "" || m.turns[0].At.Before(r.of[oldest].turns[0].At) {
			oldest = owner
		}
	}
	delete(r.of, oldest)
}

func (r *recent) forget(owner types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, owner)
}

// last returns the last turns of an owner, and those that failed.
func (r *recent) last(owner types.UID) (turns, failed []turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.of[owner]; m != nil {
		return m.turns, m.failed
	}
	return nil, nil
}

// next returns a channel that is closed when a turn is added.
func (r *recent) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.added == nil {
		r.added = make(chan struct{})
	}
	return r.added
}
