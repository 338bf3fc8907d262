package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/kube"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func shown(name string, state State, since time.Duration, message string, needs ...string) NodeStatus {
	return NodeStatus{Name: name, State: state, Message: message, Since: metav1.NewTime(noon.Add(-since)), Needs: needs}
}

// shopStatus is of a plan that waits for a Job, while a node has failed.
func shopStatus() *Status {
	return &Status{Nodes: []NodeStatus{
		shown("secret", Ready, 3*time.Minute, ""),
		shown("database", Ready, 90*time.Second, "", "secret"),
		shown("cache", Failed, 2*time.Minute, "apply Deployment default/cache: forbidden"),
		shown("migrate", Waiting, 40*time.Second, "0 of 1 completed", "database"),
		shown("app", Blocked, 40*time.Second, "waits for cache, migrate", "cache", "migrate"),
		shown("former", Deleting, time.Second, "", "database"),
	}}
}

func TestTree(t *testing.T) {
	want := `
✓ secret         Ready 3m
└─ ✓ database    Ready 90s
   ├─ … migrate  Waiting 40s: 0 of 1 completed
   │  └─ · app   Blocked 40s: waits for cache, migrate
   └─ − former   Deleting 1s
✗ cache          Failed 2m: apply Deployment default/cache: forbidden
`
	if got := "\n" + strings.Join(Tree{}.Lines(shopStatus(), noon), "\n") + "\n"; got != want {
		t.Errorf("the tree is%swant%s", got, want)
	}
	narrow := Tree{Width: 30, Color: true}.Lines(shopStatus(), noon)
	if want := "   ├─ \x1b[33m…\x1b[0m migrate  Waiting 40s:…"; narrow[2] != want {
		t.Errorf("a narrow coloured line is %q, want %q", narrow[2], want)
	}
}

// Each node of any status has one line, and no line is too long or has control characters.
func TestAnyStatusIsDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "c", "d", ""}), rapid.String())
		node := rapid.Custom(func(t *rapid.T) NodeStatus {
			return NodeStatus{
				Name: text.Draw(t, "name"), State: State(rapid.SampledFrom([]string{"Ready", "Failed", "Other", ""}).Draw(t, "state")),
				Message: text.Draw(t, "message"), Needs: rapid.SliceOfN(text, 0, 3).Draw(t, "needs"),
				Since: metav1.NewTime(noon.Add(time.Duration(rapid.Int64().Draw(t, "since")))),
			}
		})
		s := &Status{Nodes: rapid.SliceOfN(node, 0, 8).Draw(t, "nodes")}
		width := rapid.IntRange(1, 40).Draw(t, "width")
		lines := Tree{Width: width}.Lines(s, noon)
		if len(lines) != len(s.Nodes) {
			t.Fatalf("%d lines of %d nodes: %q", len(lines), len(s.Nodes), lines)
		}
		for _, line := range lines {
			if columns(line) > width || strings.ContainsFunc(line, unicode.IsControl) {
				t.Fatalf("of width %d: %q", width, line)
			}
		}
	})
}

// follow runs a screen on sightings until they end.
func followed(t *testing.T, s *screen, seen ...sighting) (string, error) {
	t.Helper()
	var out bytes.Buffer
	s.out = &out
	source := make(chan sighting)
	go func() {
		defer close(source)
		for _, x := range seen {
			time.Sleep(1100 * time.Millisecond)
			source <- x
		}
	}()
	err := s.follow(t.Context(), "corner", source)
	for range source { // the source ends too
	}
	return out.String(), err
}

func TestFollowElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := shopStatus(), shopStatus()
		second.Nodes = slices.Delete(second.Nodes, 5, 6)
		second.Nodes[3].State, second.Nodes[3].Message = Ready, ""
		trouble := errors.New("no\nroute")
		at := func(seconds int) string {
			return time.Now().Add(time.Duration(seconds) * time.Second).Format(time.TimeOnly)
		}
		want := fmt.Sprintf(`%[1]s secret: Ready
%[1]s database: Ready
%[1]s cache: Failed: apply Deployment default/cache: forbidden
%[1]s migrate: Waiting: 0 of 1 completed
%[1]s app: Blocked: waits for cache, migrate
%[1]s former: Deleting
%[2]s cannot watch: no route
%[3]s migrate: Ready
%[3]s former: gone
corner is gone
`, at(1), at(3), at(5))
		got, err := followed(t, newScreen(new(bytes.Buffer)),
			sighting{kind: kube.Added, status: first}, sighting{kind: kube.Synced}, sighting{err: trouble},
			sighting{kind: kube.Recovered}, sighting{kind: kube.Modified, status: second}, sighting{kind: kube.Deleted})
		if err != nil || got != want {
			t.Errorf("got %v and\n%swant\n%s", err, got, want)
		}
	})
}

// On a terminal the tree is drawn over itself, each second too. A tree that is higher than
// the terminal is cut.
func TestFollowOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(new(bytes.Buffer))
		s.size = func() (width, height int) { return 20, 4 }
		got, err := followed(t, s, sighting{kind: kube.Added, status: shopStatus()}, sighting{kind: kube.Deleted})
		if err != nil {
			t.Fatal(err)
		}
		drawings := strings.Split(got, "\x1b[3A\x1b[J")
		if len(drawings) != 2 || !strings.HasSuffix(drawings[0], "and 4 more\n") {
			t.Fatalf("drawn: %q", drawings)
		}
		for line := range strings.Lines(got) {
			if columns(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "\x1b[3A\x1b[J")) > 19 {
				t.Errorf("too wide: %q", line)
			}
		}
	})
}

func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := followed(t, newScreen(nil), sighting{kind: kube.Synced}); err == nil || !strings.Contains(err.Error(), `no "corner"`) {
			t.Errorf("without an owner: %v", err)
		}
		wrong := errors.New("wrong handle")
		if _, err := followed(t, newScreen(nil), sighting{err: wrong}); !errors.Is(err, wrong) {
			t.Errorf("a wrong handle: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := newScreen(new(bytes.Buffer)).follow(ctx, "corner", make(chan sighting)); err != nil {
			t.Errorf("at the end of the context: %v", err)
		}
	})
}
