package controller

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/kube"
)

// Sleepers are as many requests as were added and not removed, and the first is the earliest.
func TestSleepersModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		s, model := newSleepers(now), make(map[kube.Key]request)
		reasons, versions := rapid.SampledFrom([]Reason{Requested, Resynced}), rapid.SampledFrom([]string{"", "7", "99", "x"})
		keys := rapid.IntRange(0, rapid.SampledFrom([]int{3, 40, 2000}).Draw(t, "keys"))
		check := func(x sleeper, ok bool, want request, known bool) {
			got := s.request(x)
			if ok != known || ok && (got.key != want.key || !got.due.Equal(want.due) || got.priority != want.priority ||
				got.cause.Reason != want.cause.Reason || !got.cause.due.Equal(want.due) || got.cause.of != want.cause.of) {
				t.Fatalf("got %+v, %t; want %+v, %t", got, ok, want, known)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add some": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					r := request{key: named(fmt.Sprint(keys.Draw(t, "key"))), due: now.Add(time.Second +
						time.Duration(rapid.Int64Range(0, int64(maxResync)).Draw(t, "in")))}
					r.priority = priority(rapid.IntRange(0, int(priorities)-1).Draw(t, "priority"))
					of := objectState{types.UID(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "uid")), versions.Draw(t, "version")}
					r.cause = Cause{Reason: reasons.Draw(t, "reason"), due: r.due, of: markOf(of)}
					if _, known := model[r.key]; known {
						continue
					}
					x, ok := s.fits(r, now)
					if !ok {
						t.Fatalf("%+v does not fit", r)
					}
					s.add(x)
					model[r.key] = r
				}
			},
			"find": func(t *rapid.T) {
				key := named(fmt.Sprint(keys.Draw(t, "key")))
				x, ok := s.find(key)
				want, known := model[key]
				check(x, ok, want, known)
			},
			"remove some": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					key := named(fmt.Sprint(keys.Draw(t, "key")))
					x, ok := s.remove(key)
					want, known := model[key]
					check(x, ok, want, known)
					delete(model, key)
				}
			},
			"take the first": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					x, ok := s.first()
					if ok != (len(model) > 0) {
						t.Fatalf("there is a first: %t, of %d", ok, len(model))
					}
					if !ok {
						return
					}
					check(x, ok, model[x.key], true)
					for _, r := range model {
						if r.due.Before(s.due(x)) {
							t.Fatalf("%s comes before %s", x.key, r.key)
						}
					}
					s.remove(x.key)
					delete(model, x.key)
				}
			},
			"": func(t *rapid.T) {
				if s.n != len(model) {
					t.Fatalf("%d sleep, want %d", s.n, len(model))
				}
			},
		})
	})
}

// A request that has more than a time does not sleep.
func TestSleepersHaveOnlyATime(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := newSleepers(now)
	due := now.Add(time.Hour)
	for name, r := range map[string]request{
		"at once":       {due: now, cause: Cause{Reason: Requested, due: now}},
		"soon":          {due: now.Add(hotPause / 2), cause: Cause{Reason: Requested, due: now.Add(hotPause / 2)}},
		"in a hot loop": {due: due, cause: Cause{Reason: Requested, due: due, depth: 1}},
		"a retry":       {due: due, cause: Cause{Reason: Retried, due: due}},
		"not by itself": {due: due, cause: Cause{Reason: Resynced}},
		"in an age":     {due: now.Add(1<<63 - 1), cause: Cause{Reason: Requested, due: now.Add(1<<63 - 1)}},
	} {
		if _, fits := s.fits(r, now); fits {
			t.Errorf("%s: it fits", name)
		}
	}
}

// A wait of a state is over with the end of that state or of a later one, and of no other object. A
// state that is not known is over with any.
func TestMarkIsOver(t *testing.T) {
	state := func(uid types.UID, version string) objectState { return objectState{uid, version} }
	for name, test := range map[string]struct {
		of, end objectState
		want    bool
	}{
		"this state":          {state("a", "7"), state("a", "7"), true},
		"later":               {state("a", "7"), state("a", "8"), true},
		"earlier":             {state("a", "7"), state("a", "6"), false},
		"much later":          {state("a", "7"), state("a", "2000000000"), true},
		"over the edge":       {state("a", "4294967290"), state("a", "4294967300"), true},
		"before the edge":     {state("a", "4294967300"), state("a", "4294967290"), false},
		"another object":      {state("a", "7"), state("b", "8"), false},
		"not known":           {state("", ""), state("b", "8"), true},
		"without numbers":     {state("a", "x"), state("a", "y"), true},
		"an end without one":  {state("a", "7"), state("a", ""), true},
		"a state without one": {state("a", ""), state("a", "7"), true},
	} {
		if got := markOf(test.of).overWith(test.end); got != test.want || got != test.of.overWith(test.end) {
			t.Errorf("%s: %t, and of the whole state %t; want %t", name, got, test.of.overWith(test.end), test.want)
		}
	}
}
