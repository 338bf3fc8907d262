package kube

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
)

// holdSteps is holdLoop for a loop that is shown every step.
func holdSteps(t *testing.T, s AnyHandle) *heldLoop {
	t.Helper()
	return holdFeed(t, s.Open(context.Background()), stepwise)
}

// A loop is held up at one object, and somebody reads states of other objects meanwhile.
// The loop is shown each of these states, in order.
func TestStepsLeaveOutNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for _, name := range []string{"busy", "user", "twice"} {
			s.put(key(name), "one")
		}
		l := holdSteps(t, configMaps(s.client(t)))
		if n := len(l.rest()); n != 4 {
			t.Fatalf("%d changes at first", n)
		}
		s.put(key("busy"), "two") // the loop waits at it
		synctest.Wait()
		s.put(key("user"), "refers to a")
		s.put(key("guest"), "refers to b")
		s.put(key("twice"), "last")
		s.remove(key("twice"))
		s.put(key("twice"), "between")
		s.remove(key("guest"))
		s.put(key("user"), "one")
		s.put(key("user"), "two")
		s.remove(key("twice"))
		synctest.Wait()
		wantLines(t, "what it is shown", linesOf(t, l.rest()),
			"MODIFIED busy two", "ADDED guest refers to b", "DELETED guest refers to b",
			"MODIFIED twice last", "DELETED twice last", "ADDED twice between", "DELETED twice between",
			"MODIFIED user refers to a", "MODIFIED user one", "MODIFIED user two")
		for sub := range l.feed.table.followers.all {
			if sub.behind != nil {
				t.Errorf("a loop that has caught up holds %d snapshots", len(sub.behind))
			}
		}
	})
}

// A loop is so far behind that steps are left out. The loop learns of that.
func TestStepsThatAreTooManyToKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for _, name := range []string{"busy", "hot", "user"} {
			s.put(key(name), "one")
		}
		l := holdSteps(t, configMaps(s.client(t)))
		l.rest()
		s.put(key("busy"), "two") // the loop waits at it
		synctest.Wait()
		s.put(key("user"), "two")
		for i := range 3 * stepsKept {
			s.put(key("hot"), fmt.Sprint(i))
		}
		synctest.Wait()
		for sub := range l.feed.table.followers.all {
			if n := len(sub.behind); n > stepsKept {
				t.Errorf("%d snapshots are kept", n)
			}
		}
		l.next()
		var lines []string
		again := 0
		for _, c := range l.rest() {
			if c.Type == Synced {
				again++
				continue
			}
			lines = append(lines, linesOf(t, []Change{c})...)
		}
		if again != 1 || len(lines) > stepsKept+2 || lines[len(lines)-1] != "MODIFIED user two" {
			t.Errorf("after %d changes it is Synced %d times", len(lines), again)
		}
		s.put(key("user"), "three")
		wantLines(t, "later", linesOf(t, l.rest()), "MODIFIED user three")
	})
}

// An object leaves the selection of a store, comes back and leaves it again, while a loop
// is held up. Each time the loop is shown the last state of that time, and none of a later
// time.
func TestStepsOfAnObjectThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		labeled := func(app string) func(*modelObject) {
			return func(o *modelObject) { o.labels = map[string]string{"app": app} }
		}
		s.put(key("busy"), "one", labeled("ours"))
		s.put(key("guest"), "one", labeled("ours"))
		l := holdSteps(t, configMaps(s.client(t)).Labeled("app=ours"))
		if n := len(l.rest()); n != 3 {
			t.Fatalf("%d changes at first", n)
		}
		s.put(key("busy"), "two") // the loop waits at it
		synctest.Wait()
		s.put(key("guest"), "two", labeled("theirs"))
		s.put(key("guest"), "three", labeled("ours"))
		s.put(key("guest"), "four", labeled("theirs"))
		s.put(key("guest"), "five", labeled("ours"))
		synctest.Wait()
		var versions []string
		for _, c := range l.rest() {
			if c.Key == key("guest") {
				versions = append(versions, string(c.Type)+" "+c.ResourceVersion())
			}
		}
		wantLines(t, "what it is shown", versions, "DELETED 104", "ADDED 105", "DELETED 106", "ADDED 107")
	})
}
