package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// tool is a thing outside the cluster in tests.
type tool struct {
	Name  string
	Color string
	Needs string // the names of plants and tools that must be there first
	Token string
	ID    string // is given by the shed, and shown by create alone if the shed keeps secrets
	Ready bool
}

// shed plays a system outside the cluster. It makes a second tool of a name or token
// unless it is unique.
type shed struct {
	world *world
	tools []*tool
	made  int
	// unique says that the shed makes no second tool of a name.
	unique bool
	// secretive says that only the answer to a creation shows the tool's ID.
	secretive bool
	// abandoned reports that a tool may have been retained.
	abandoned func(name string) bool
	calls     []string // such as "create a"
	times     []time.Time
	busy, top int // calls under way, and the most of them at a time
	takes     time.Duration
	// fault, if it is set, tells how a call fails.
	fault func(call string) fault
}

// fault is how a call fails.
type fault struct {
	err      error
	executed bool          // the call takes effect all the same
	late     time.Duration // so much later
}

func (s *shed) has(name string) bool { return s.find(name) != nil }

func (s *shed) find(name string) *tool {
	i := slices.IndexFunc(s.tools, func(t *tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return s.tools[i]
}

func (s *shed) names() (names []string) {
	s.world.mu.Lock() // a late call may take effect at any time
	defer s.world.mu.Unlock()
	for _, t := range s.tools {
		names = append(names, t.Name)
	}
	return names
}

// count returns the number of calls whose text begins so.
func (s *shed) count(prefix string) (n int) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, c := range s.calls {
		if len(c) >= len(prefix) && c[:len(prefix)] == prefix {
			n++
		}
	}
	return n
}

// call executes a call, or makes it fail. It checks that all needs are ready when it begins.
func (s *shed) call(ctx context.Context, name, needs string, execute func() error) error {
	w := s.world
	w.mu.Lock()
	if err := ctx.Err(); err != nil {
		w.mu.Unlock()
		return err
	}
	if w.killed() {
		w.mu.Unlock()
		return errKilled
	}
	w.story = append(w.story, time.Now().Format("15:04:05 ")+name)
	s.calls, s.times = append(s.calls, name), append(s.times, time.Now())
	w.mayMake(name, needs)
	s.busy++
	s.top = max(s.top, s.busy)
	var f fault
	if s.fault != nil {
		f = s.fault(name)
	}
	w.mu.Unlock()
	err := sleep(ctx, s.takes)
	w.mu.Lock()
	defer w.mu.Unlock()
	s.busy--
	w.story = append(w.story, time.Now().Format("15:04:05 ")+name+fmt.Sprintf(" %+v", f))
	switch {
	case err != nil:
		return err
	case f.err == nil:
		err = execute()
	case f.executed && f.late > 0:
		time.AfterFunc(f.late, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.story = append(w.story, time.Now().Format("15:04:05 ")+name+" takes effect")
			_ = execute()
		})
		err = f.err
	case f.executed:
		_ = execute()
		err = f.err
	default:
		err = f.err
	}
	if w.unanswered() {
		return errKilled
	}
	return err
}

var errUnanswered = errors.New("the connection was lost")

// things returns the Things of one process.
func (s *shed) things() *Things[tool] {
	show := func(t *tool) *tool {
		if t == nil {
			return nil
		}
		c := *t
		return &c
	}
	return &Things[tool]{
		Kind: "Tool", Name: func(t *tool) string { return t.Name }, Idempotent: s.unique,
		Observe: func(ctx context.Context, r Ref) (is *tool, err error) {
			err = s.call(ctx, "observe "+r.Name, "", func() error {
				if is = show(s.find(r.Name)); is != nil && s.secretive {
					is.ID = ""
				}
				return nil
			})
			return is, err
		},
		Create: func(ctx context.Context, r Ref, want *tool) (is *tool, err error) {
			err = s.call(ctx, "create "+r.Name, want.Needs, func() error {
				if old := s.find(r.Name); s.unique && old != nil {
					if old.Token != r.Token {
						return fmt.Errorf("%w: there is a tool of this name", ErrRefused)
					}
					is = show(old)
					return nil
				}
				if s.has(r.Name) {
					s.world.broken = append(s.world.broken, "a second tool was made: "+r.Name)
				}
				s.made++
				t := &tool{r.Name, want.Color, want.Needs, r.Token, "id-" + strconv.Itoa(s.made), true}
				s.tools = append(s.tools, t)
				is = show(t)
				return nil
			})
			return is, err
		},
		Differs: func(is, want *tool) bool { return is.Color != want.Color || is.Needs != want.Needs },
		Update: func(ctx context.Context, r Ref, _, want *tool) (is *tool, err error) {
			err = s.call(ctx, "update "+r.Name, want.Needs, func() error {
				t := s.find(r.Name)
				if t == nil {
					return errors.New("there is no such tool")
				}
				t.Color, t.Needs = want.Color, want.Needs
				if is = show(t); s.secretive {
					is.ID = ""
				}
				return nil
			})
			return is, err
		},
		Delete: func(ctx context.Context, r Ref) error {
			return s.call(ctx, "delete "+r.Name, "", func() error {
				if s.has(r.Name) {
					s.world.mayDelete(r.Name)
				}
				s.tools = slices.DeleteFunc(s.tools, func(t *tool) bool { return t.Name == r.Name })
				return nil
			})
		},
	}
}

// occupy takes one of the target's places for another owner.
func (t *Target) occupy() (done func(), err error) {
	t.begin()
	t.slots <- struct{}{}
	return func() { <-t.slots }, nil
}
