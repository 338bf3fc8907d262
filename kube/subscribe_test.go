package kube

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestChangesOfAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		store, _ := startStore(t, configMaps(s.client(t)))
		f := follow(t, store.Changes, noteOfConfigMap)
		wantLines(t, "at first", f.taken(), "ADDED default/a one", "SYNCED")
		s.put(key("a"), "two")
		wantLines(t, "then", f.taken(), "MODIFIED default/a two")
		s.put(key("b"), "one")
		wantLines(t, "then", f.taken(), "ADDED default/b one")
		s.remove(key("b"))
		wantLines(t, "then", f.taken(), "DELETED default/b one")
		late := follow(t, store.Changes, noteOfConfigMap)
		wantLines(t, "who comes late", late.taken(), "ADDED default/a two", "SYNCED")
		late.stop()
		synctest.Wait()
		if n := len(store.table.followers.all); n != 1 {
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
		slow := follow(t, store.Changes, noteOfConfigMap)
		if n := len(slow.taken()); n != 5 {
			t.Fatalf("%d events at first", n)
		}
		slow.setSlow(time.Hour)
		s.put(key("first"), "two") // has the loop busy
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
		fast := follow(t, store.Changes, noteOfConfigMap)
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
		if end, anew := slices.Index(got, "DELETED default/anew last"), slices.Index(got, "ADDED default/anew new"); end > anew {
			t.Errorf("an object is added before the one of its name is deleted: %q", got)
		}
		slices.Sort(got[1:])
		wantLines(t, "what the slow loop gets", got,
			"MODIFIED default/first two", "ADDED default/anew new", "DELETED default/anew last", "DELETED default/gone last", "MODIFIED default/a 999")
	})
}

func TestBufferedChangesAreDeliveredWhenTheStoreEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		store, stop := startStore(t, configMaps(s.client(t)))
		f := follow(t, store.Changes, noteOfConfigMap)
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
			t.Fatal("ended before what was buffered")
		default:
		}
		<-f.ended // by itself
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
		f := follow(t, store.Changes, noteOfConfigMap) // before there is a list
		wantLines(t, "of nothing", f.taken(), "SYNCED")
		s.release()
		for leave := range 3 {
			s.put(key("x"), strconv.Itoa(leave))
			for range store.Changes(t.Context()) {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for ev := range store.Changes(ctx) {
			t.Fatalf("%v after the end", ev)
		}
		synctest.Wait()
		if n := len(store.table.followers.all); n != 1 {
			t.Fatalf("%d subscriptions are left", n)
		}
	})
}
