package kube

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestChangesOfAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		store, _ := startStore(t, configMaps(s.client(t)))
		f := follow(t, store.Watch, noteOfConfigMap)
		wantLines(t, "at first", f.taken(), "ADDED default/a one", "SYNCED")
		s.put(key("a"), "two")
		wantLines(t, "then", f.taken(), "MODIFIED default/a two")
		s.put(key("b"), "one")
		wantLines(t, "then", f.taken(), "ADDED default/b one")
		s.remove(key("b"))
		wantLines(t, "then", f.taken(), "DELETED default/b one")
		late := follow(t, store.Watch, noteOfConfigMap)
		wantLines(t, "who comes late", late.taken(), "ADDED default/a two", "SYNCED")
		late.stop()
		synctest.Wait()
		if n := len(store.reads.table.followers.all); n != 1 {
			t.Fatalf("%d subscriptions are left", n)
		}
	})
}

func TestSlowSubscriberGetsTheNewestAndEveryDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for _, n := range []string{"a", "anew", "first", "gone"} {
			s.put(key(n), "one")
		}
		store, _ := startStore(t, configMaps(s.client(t)))
		slow := follow(t, store.Watch, noteOfConfigMap)
		if n := len(slow.taken()); n != 5 {
			t.Fatalf("%d events at first", n)
		}
		slow.setSlow(time.Hour)
		s.put(key("first"), "two") // it keeps the loop busy
		synctest.Wait()
		for i := range 1000 {
			s.put(key("a"), strconv.Itoa(i))
		}
		s.put(key("gone"), "last")
		s.remove(key("gone"))
		s.put(key("anew"), "last")
		s.remove(key("anew"))
		s.put(key("anew"), "between")
		s.remove(key("anew"))
		s.put(key("anew"), "new")
		s.put(key("never"), "seen")
		s.remove(key("never"))
		synctest.Wait()
		start := time.Now()
		fast := follow(t, store.Watch, noteOfConfigMap)
		if n := len(fast.taken()); n != 4 || time.Since(start) > 0 {
			t.Fatalf("%d events for another loop after %s", n, time.Since(start))
		}
		if o, err := store.Get(t.Context(), key("a")); err != nil || o.Data["note"] != "999" {
			t.Fatalf("the store is held up: %v, %v", o, err)
		}
		synctest.Wait()
		slow.setSlow(0)
		time.Sleep(2 * time.Hour)
		got := slow.taken()
		if slices.Index(got, "DELETED default/anew last") > slices.Index(got, "ADDED default/anew new") {
			t.Errorf("an object is added before the one of its name is deleted: %q", got)
		}
		slices.Sort(got[1:])
		wantLines(t, "what the slow loop gets", got,
			"MODIFIED default/first two", "ADDED default/anew new", "DELETED default/anew last",
			"DELETED default/gone last", "MODIFIED default/a 999")
	})
}

func TestBufferedChangesAreDeliveredWhenTheStoreEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		store, stop := startStore(t, configMaps(s.client(t)))
		f := follow(t, store.Watch, noteOfConfigMap)
		f.taken()
		f.setSlow(time.Minute)
		s.put(key("a"), "two")
		synctest.Wait()
		s.put(key("b"), "one")
		s.remove(key("a"))
		synctest.Wait()
		stop()
		<-store.Done()
		select {
		case <-f.ended:
			t.Fatal("ended before the buffered changes")
		default:
		}
		<-f.ended // it ends by itself
		got := f.taken()
		if len(got) != 3 {
			t.Fatalf("changes: %q", got)
		}
	})
}

func TestChangesBeforeTheFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.hold()
		store, _ := startStore(t, configMaps(s.client(t)))
		f := follow(t, store.Watch, noteOfConfigMap) // before there is a list
		wantLines(t, "of nothing", f.taken(), "SYNCED")
		s.release()
		for leave := range 3 {
			s.put(key("x"), strconv.Itoa(leave))
			for range store.Watch(t.Context()) {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for ev := range store.Watch(ctx) {
			t.Fatalf("%v after the end", ev)
		}
		synctest.Wait()
		if n := len(store.reads.table.followers.all); n != 1 {
			t.Fatalf("%d subscriptions are left", n)
		}
	})
}

// A sleeping loop costs nothing for objects that come and go, and for the changes of
// other objects. Only some last states wait for the loop.
func TestLoopThatSleepsHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for i := range 10 {
			s.put(key(strconv.Itoa(i)), "one")
		}
		l := holdLoop(t, configMaps(s.client(t)))
		if n := len(l.rest()); n != 11 {
			t.Fatalf("%d changes at first", n)
		}
		s.put(key("0"), "two") // the loop waits at it
		synctest.Wait()
		f := &l.feed.table.followers
		for i := range 2 * endsKept {
			s.put(key("a"+strconv.Itoa(i)), "one")
			s.remove(key("a" + strconv.Itoa(i)))
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		for i := range 10 {
			s.put(key(strconv.Itoa(i)), "three")
		}
		s.remove(key("9"))
		synctest.Wait()
		if len(f.ends) > endsKept {
			t.Errorf("%d last states are kept", len(f.ends))
		}
		for sub := range f.all {
			if sub.seen.Len() != 10 {
				t.Errorf("the loop holds %d objects", sub.seen.Len())
			}
		}
		all := linesOf(t, l.rest())
		if len(all) != 11 || all[0] != "MODIFIED 0 two" || !slices.Contains(all, "DELETED 9 three") {
			t.Errorf("then it is shown %q", all)
		}
		for i := range 3 {
			s.remove(key(strconv.Itoa(i)))
		}
		if n := len(l.rest()); n != 3 || len(f.ends) != 0 {
			t.Errorf("after %d deletions that the loop was shown %d last states are kept", n, len(f.ends))
		}
	})
}

// The store keeps a limited number of last states. A loop that is more deletions behind
// than that is shown each end with the object as the loop saw it last.
func TestEndsThatAreTooManyToKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for i := range endsKept + 100 {
			s.put(key(strconv.Itoa(i)), "one")
		}
		l := holdLoop(t, configMaps(s.client(t)))
		l.rest()
		s.put(key("busy"), "two")
		synctest.Wait()
		for i := range endsKept + 100 {
			s.put(key(strconv.Itoa(i)), "last")
			s.remove(key(strconv.Itoa(i)))
		}
		l.next()
		last, saw := 0, 0
		for _, line := range linesOf(t, l.rest()) {
			switch {
			case strings.HasPrefix(line, "DELETED") && strings.HasSuffix(line, "last"):
				last++
			case strings.HasPrefix(line, "DELETED") && strings.HasSuffix(line, "one"):
				saw++
			default:
				t.Fatalf("it is shown %s", line)
			}
		}
		if last != endsKept || saw != 100 {
			t.Errorf("%d ends have the last state, %d the one that was seen", last, saw)
		}
	})
}

// An object may change whenever it is shown. It does not stop other objects from being
// shown.
func TestChangesDoNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for i := range 20 {
			s.put(key(strconv.Itoa(i)), "one")
		}
		l := holdLoop(t, configMaps(s.client(t)))
		l.rest()
		s.put(key("0"), "hot")
		for i := range 200 {
			c := l.next()
			if c.Key != key("0") {
				if i > 30 {
					t.Errorf("it was shown after %d others", i)
				}
				return
			}
			s.put(key("0"), strconv.Itoa(i))
			if i == 10 {
				s.put(key("7"), "two")
			}
		}
		t.Error("the other object was never shown")
	})
}

// An object that a relist could not read stays as it was. It does not count as deleted.
func TestRelistKeepsWhatItCouldNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for _, k := range []Key{{"n1", "a"}, {"n1", "b"}, {"n2", "a"}, {"n2", "b"}} {
			s.put(k, "one")
		}
		store, stop := startStore(t, configMaps(s.client(t)))
		whole := content(t, store)
		f := follow(t, store.Watch, noteOfConfigMap)
		f.taken()
		stop() // from here the test plays the reflector
		<-store.Done()
		sink := &tableSink{table: store.reads.table}
		relist := func(kept ...Key) []string {
			sink.begin()
			for _, k := range kept {
				sink.keep(k)
			}
			if err := sink.synced("1000"); err != nil {
				t.Fatal(err)
			}
			var lines []string
			for k := range store.reads.table.now().entries.All() {
				lines = append(lines, k.String()+" one")
			}
			slices.Sort(lines)
			return lines
		}
		wantLines(t, "without any name", relist(Key{}), whole...)
		wantLines(t, "where a name is known", relist(Key{Name: "a"}), "n1/a one", "n2/a one")
		wantLines(t, "where a key is known", relist(Key{"n1", "a"}, Key{"n3", "new"}), "n1/a one")
		wantLines(t, "where a namespace is known", relist(Key{Namespace: "n1"}), "n1/a one")
		wantLines(t, "where all is read", relist())
	})
}

// The end of an object without a uid has its own last state.
func TestEndsWithoutUIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for _, name := range []string{"a", "b", "c"} {
			s.put(key(name), "one", func(o *modelObject) { o.uid = "" })
		}
		store, _ := startStore(t, configMaps(s.client(t)))
		loop := follow(t, store.Watch, noteOfConfigMap)
		loop.taken()
		s.hold()
		for _, name := range []string{"a", "b", "c"} {
			s.remove(key(name))
		}
		s.loseHistory()
		time.Sleep(time.Minute)
		got := loop.taken()
		slices.Sort(got)
		wantLines(t, "a loop", got, "DELETED default/a one", "DELETED default/b one", "DELETED default/c one")
	})
}
