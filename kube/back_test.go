package kube

import (
	"testing"
	"testing/synctest"

	"github.com/pintle-go/pintle/internal/versions"
)

// A loop waits at one object while others leave the selection and come back. It is shown their newest
// states, and after those no end that came before.
func TestObjectThatCameBackToTheSelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		chosen := func(o *modelObject) { o.labels = map[string]string{"odd": "1"} }
		names := []string{"a", "b", "c"}
		for _, n := range names {
			s.put(key(n), "one", chosen)
		}
		l := holdLoop(t, configMaps(s.client(t)).Labeled("odd=1"))
		if n := len(l.rest()); n != 4 {
			t.Fatalf("%d changes at first", n)
		}
		// The loop waits at the first one, and is about to be shown all of them.
		s.put(key(names[0]), "two", chosen)
		synctest.Wait()
		for _, n := range names {
			s.put(key(n), "three", chosen)
		}
		synctest.Wait()
		l.next()
		synctest.Wait()
		for _, n := range names {
			s.put(key(n), "four, not selected", func(o *modelObject) { o.labels = nil })
			s.put(key(n), "five", chosen)
		}
		latest := make(map[Key]string)
		for _, c := range l.rest() {
			is := c.ResourceVersion()
			if was := latest[c.Key]; versions.Reached(was, is) && (c.Type != Deleted || was != is) {
				t.Errorf("%s %s at %s is shown after %s", c.Type, c.Key, is, was)
			}
			latest[c.Key] = is
		}
		if len(latest) != len(names) || len(latest) != l.feed.Stats().Objects {
			t.Errorf("%d objects are shown", len(latest))
		}
	})
}
