package plan

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/pintle-go/pintle/kube"
)

// Follow shows how the plan of one owner goes on, until ctx ends or the owner is gone. The
// handle is narrowed to the owner's namespace. status returns the part of the owner's
// status that the plan keeps.
//
// On a terminal, Follow draws the [Tree] in place, at each change and each second, with
// colours unless the environment has NO_COLOR. If the terminal has fewer rows than the
// tree, the last rows are left out, and counted. Elsewhere it writes a line for each node
// that has entered another state or says something else, with the time of day.
//
// Follow returns nil if ctx ends or the owner is gone. It returns an error if there is no
// such owner, if the handle is wrong, or if w fails. It goes on after other failures of the
// watch, and shows them.
func Follow[T any](
	ctx context.Context, w io.Writer, owners kube.Handle[T], name string, status func(*T) *Status,
) error {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	seen := make(chan sighting)
	watching.Go(func() {
		defer close(seen)
		for ev, err := range owners.ReadOnly().Fielded("metadata.name=" + name).Watch(ctx) {
			s := sighting{kind: ev.Type, err: err}
			if err == nil && ev.Type.IsChange() {
				s.status = status(ev.Object)
			}
			select {
			case seen <- s:
			case <-ctx.Done():
				return
			}
		}
	})
	return newScreen(w).follow(ctx, name, seen)
}

// sighting is an event of the owner's watch.
type sighting struct {
	kind   kube.WatchEventType
	status *Status
	err    error
}

// screen shows a plan to somebody.
type screen struct {
	out  io.Writer
	size func() (width, height int) // nil: out is not a terminal
	tree Tree

	status  *Status
	trouble error
	drawn   int                   // lines on the terminal
	told    map[string]NodeStatus // the nodes as they were written elsewhere
	shown   error                 // the trouble that was written elsewhere
}

func newScreen(w io.Writer) *screen {
	s := &screen{out: w, told: make(map[string]NodeStatus)}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.tree.Color = os.Getenv("NO_COLOR") == ""
		s.size = func() (width, height int) {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80, 24
			}
			return width, height
		}
	}
	return s
}

// nodes returns the nodes as they were last seen.
func (s *screen) nodes() *Status {
	if s.status == nil {
		return new(Status)
	}
	return s.status
}

func (s *screen) follow(ctx context.Context, name string, seen <-chan sighting) error {
	var each <-chan time.Time
	if s.size != nil {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		each = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-each:
		case now, more := <-seen:
			switch {
			case !more && ctx.Err() != nil:
				return nil
			case !more:
				return s.trouble
			case now.err != nil:
				s.trouble = now.err
			case now.kind == kube.Synced && s.status == nil:
				return fmt.Errorf("follow plan: there is no %q", name)
			case now.kind == kube.Deleted:
				return s.gone(name)
			case now.status != nil:
				s.status, s.trouble = now.status, nil
			case now.kind == kube.Recovered:
				s.trouble = nil
			}
		}
		if err := s.show(time.Now()); err != nil {
			return fmt.Errorf("show plan: %w", err)
		}
	}
}

// show draws the tree on a terminal, or else writes the changes.
func (s *screen) show(now time.Time) error {
	if s.status == nil && s.trouble == nil {
		return nil
	}
	var b bytes.Buffer
	if s.size == nil {
		s.changes(&b, now)
	} else {
		s.draw(&b, now)
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := s.out.Write(b.Bytes())
	return err
}

func (s *screen) draw(b *bytes.Buffer, now time.Time) {
	width, height := s.size()
	s.tree.Width = max(1, width-1) // a full line would break on some terminals
	lines := s.tree.Lines(s.nodes(), now)
	if s.trouble != nil {
		lines = append(lines, s.tree.cut("cannot watch: "+plain(s.trouble.Error())))
	}
	if most := max(1, height-1); len(lines) > most {
		left := len(lines) - most + 1
		lines = append(lines[:most-1], s.tree.cut(fmt.Sprintf("and %d more", left)))
	}
	if s.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA\x1b[J", s.drawn) // to the first line, and clear from there
	}
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	s.drawn = len(lines)
}

// changes writes the nodes that differ from what was written of them.
func (s *screen) changes(b *bytes.Buffer, now time.Time) {
	at := now.Format(time.TimeOnly)
	here := make(map[string]bool)
	for _, n := range s.nodes().Nodes {
		here[n.Name] = true
		if was := s.told[n.Name]; was.State == n.State && was.Message == n.Message {
			continue
		}
		s.told[n.Name] = n
		fmt.Fprintf(b, "%s %s: %s", at, plain(n.Name), plain(string(n.State)))
		if n.Message != "" {
			fmt.Fprintf(b, ": %s", plain(n.Message))
		}
		b.WriteByte('\n')
	}
	for _, name := range slices.Sorted(maps.Keys(s.told)) {
		if !here[name] {
			delete(s.told, name)
			fmt.Fprintf(b, "%s %s: gone\n", at, plain(name))
		}
	}
	if s.trouble != nil && s.trouble != s.shown { //nolint:errorlint // the same report, not the same sort
		fmt.Fprintf(b, "%s cannot watch: %s\n", at, plain(s.trouble.Error()))
	}
	s.shown = s.trouble
}

func (s *screen) gone(name string) error {
	_, err := fmt.Fprintf(s.out, "%s is gone\n", plain(name))
	if err != nil {
		return fmt.Errorf("show plan: %w", err)
	}
	return nil
}
