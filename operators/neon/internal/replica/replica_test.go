package replica

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

func TestLag(t *testing.T) {
	t.Parallel()
	type look struct {
		after       time.Duration // since the start
		at, storage upstream.LSN
		behind      string // a part of what Behind says
	}
	for name, looks := range map[string][]look{
		"never asked":        {{0, 0, 0, "its position is not known"}},
		"it has all":         {{0, 1000, 1000, ""}, {time.Hour, 1000, 1000, ""}},
		"the head of a page": {{0, 1000, 1040, ""}, {time.Hour, 1000, 1040, ""}},
		"it catches up first": {
			{0, 1000, 5000, "it has replayed the history up to 0/3E8, and the storage has it up to 0/1388"},
			{time.Second, 3000, 9000, "up to 0/1388"}, {2 * time.Second, 5000, 9000, ""},
		},
		"it is late by a while": {
			{0, 1000, 1000, ""}, {10 * time.Second, 2000, 9000, ""}, {20 * time.Second, 9000, 90000, ""},
			{40 * time.Second, 80000, 900000, ""}, {45 * time.Second, 90000, 900000, ""},
		},
		"it stands still, a little behind": {
			{0, 1000, 1000, ""}, {time.Second, 1000, 1200, ""}, {20 * time.Second, 1000, 1200, ""},
			{32 * time.Second, 1000, 1200, "it has not replayed the history up to 0/4B0 for longer than 30s"},
			{33 * time.Second, 1200, 1200, ""},
		},
	} {
		var l Lag
		start := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
		for i, s := range looks {
			now := start.Add(s.after)
			l = l.See(now, s.at, s.storage)
			got := l.Behind(now, 30*time.Second)
			if (got == "") != (s.behind == "") || !strings.Contains(got, s.behind) {
				t.Errorf("%s: look %d says %q, want %q", name, i, got, s.behind)
			}
		}
	}
}
