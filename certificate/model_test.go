package certificate

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/internal/bubble"
)

// Replicas run for a month. One of them makes the Secret, and each change is made once.
func TestYearsOfReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		replicas := []*replica{w.replica(t, "a"), w.replica(t, "b"), w.replica(t, "c")}
		for range 30 {
			time.Sleep(day)
			if err := w.whole(replicas...); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range replicas {
			r.end()
		}
		time.Sleep(time.Minute)
		// In 30 days: some 6 authorities, each of which is made, switched to and dropped,
		// and some 25 certificates.
		if w.creates != 1 || w.writes < 25 || w.writes > 60 {
			t.Errorf("%d creates and %d writes of the Secret", w.creates, w.writes)
		}
	})
}

// A process dies at each of its first requests, and later at each request of a rotation,
// before or after the server has executed it. The next process goes on.
func TestCrashAtEachRequest(t *testing.T) { crashAtEachRequest(t, 1) }

// TestSoakCrashAtEachRequest goes through more rotations.
func TestSoakCrashAtEachRequest(t *testing.T) { crashAtEachRequest(t, 3) }

func crashAtEachRequest(t *testing.T, rotations int) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []bool{false, true} {
			for request := 1; request < 12; request++ {
				w := newWorld()
				a := w.replica(t, "a")
				a.dieAt(request, after)
				time.Sleep(time.Minute)
				a.end()
				for rotation := range rotations {
					b := w.replica(t, "b")
					time.Sleep(4*day + 12*time.Hour)
					b.dieAt(request, after)
					time.Sleep(day)
					b.end()
					w.mu.Lock()
					if w.broken.Len() > 0 {
						t.Fatalf("death at request %d, rotation %d: %s", request, rotation, &w.broken)
					}
					w.mu.Unlock()
				}
				c := w.replica(t, "c")
				time.Sleep(3 * time.Hour)
				if err := w.whole(c); err != nil {
					t.Fatalf("death at request %d, executed %t: %v", request, after, err)
				}
				c.end()
				time.Sleep(time.Minute)
			}
		}
	})
}

// Replicas come, go and die at any request, and somebody edits the target, or deletes or
// damages the Secret. At no moment does a client with a bundle that an issuer published,
// and that the target had an hour ago at most, distrust a served certificate.
func TestModel(t *testing.T) {
	t.Parallel()
	bubble.Check(t, 20, func(rt *rapid.T, t *testing.T) {
		w := newWorld()
		replicas := make([]*replica, 3)
		defer func() {
			for _, r := range replicas {
				if r != nil {
					r.end()
				}
			}
			time.Sleep(time.Minute)
		}()
		come := func(i int) {
			if replicas[i] == nil || !replicas[i].runs() {
				replicas[i] = w.replica(t, string(rune('a'+i)))
			}
		}
		come(0)
		time.Sleep(time.Minute)
		which := func(rt *rapid.T) int { return rapid.IntRange(0, 2).Draw(rt, "replica") }
		check := func(rt *rapid.T) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, r := range replicas {
				if r != nil && r.runs() {
					if s, ok := r.serving(); ok {
						w.check(r.name, s)
					}
				}
			}
			if w.broken.Len() > 0 {
				rt.Error(w.broken.String())
			}
		}
		// lose has somebody take the Secret away from replicas that know it.
		lose := func(do func()) {
			for i, r := range replicas {
				if r == nil || !r.runs() {
					come(i)
				}
				replicas[i].dieAt(0, false)
			}
			time.Sleep(time.Minute)
			w.mu.Lock()
			do()
			close(w.changed)
			w.changed = make(chan struct{})
			w.mu.Unlock()
			time.Sleep(time.Minute)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"":     check,
			"come": func(rt *rapid.T) { come(which(rt)) },
			"go": func(rt *rapid.T) {
				if r := replicas[which(rt)]; r != nil {
					r.end()
				}
			},
			"die": func(rt *rapid.T) {
				if r := replicas[which(rt)]; r != nil {
					r.dieAt(rapid.IntRange(1, 20).Draw(rt, "requests"), rapid.Bool().Draw(rt, "after"))
				}
			},
			"wait": func(rt *rapid.T) {
				for range rapid.IntRange(1, 36).Draw(rt, "hours") {
					time.Sleep(time.Hour)
					come(which(rt)) // certificates expire if nobody runs for days
					check(rt)
				}
			},
			"moment": func(rt *rapid.T) {
				time.Sleep(time.Duration(rapid.IntRange(0, 100).Draw(rt, "ms")) * time.Millisecond)
			},
			"edit": func(rt *rapid.T) {
				w.mu.Lock()
				defer w.mu.Unlock()
				bundle := rapid.SampledFrom(w.editions).Draw(rt, "edition").bundle
				w.edit(bundle, true)
			},
			"delete": func(*rapid.T) {
				lose(func() { w.secret = nil; w.rv++ })
			},
			"damage": func(rt *rapid.T) {
				key := rapid.SampledFrom([]string{servingCert, servingKey, bundleCerts}).Draw(rt, "key")
				lose(func() {
					damaged := w.secret.DeepCopy()
					damaged.Data[key] = slices.Clone(damaged.Data[key][:len(damaged.Data[key])/2])
					w.put(nil, damaged, true)
				})
			},
		})
		for i, r := range replicas {
			if r != nil {
				r.end()
			}
			come(i)
		}
		time.Sleep(3 * time.Hour)
		check(rt)
		if err := w.whole(replicas...); err != nil {
			rt.Error(err)
		}
	})
}
