package event

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func about(name, note string) identity {
	return identity{regarding: corev1.ObjectReference{Name: name}, reason: "R", action: "A", note: note}
}

// write plays the writer, with a server that accepts every event.
func (c *correlator) write(now time.Time) (requests int) {
	for s := c.lanes.next(now); s != nil; s = c.lanes.next(now) {
		c.wrote(s, s.count, now)
		requests++
	}
	return requests
}

func TestRequestsForFailingObject(t *testing.T) {
	for name, note := range map[string]func(i int) string{
		"always the same": func(int) string { return "no" },
		"always another":  func(i int) string { return fmt.Sprint("no ", i) },
	} {
		t.Run(name, func(t *testing.T) {
			var c correlator
			now := time.Now()
			requests, took := 0, 0
			for i := range 24 * 60 * 60 {
				if c.observe(about("x", note(i)), now) {
					took++
				}
				if i%10 == 0 {
					c.sweep(now, false)
				}
				requests += c.write(now)
				now = now.Add(time.Second)
			}
			t.Logf("%d events taken, %d requests in a day", took, requests)
			if most := 25 + 24*12; requests > most {
				t.Errorf("%d requests, want at most %d", requests, most)
			}
			if requests < 24*12-25 {
				t.Errorf("%d requests: less than is allowed", requests)
			}
			c.sweep(now, true)
			c.write(now)
			if n := c.unwritten(); n != 0 {
				t.Errorf("%d are unwritten at the end", n)
			}
		})
	}
}

func TestWhatIsOverIsForgotten(t *testing.T) {
	var c correlator
	now := time.Now()
	for i := range 10000 {
		c.observe(about(fmt.Sprint(i), "x"), now)
		c.write(now)
	}
	if len(c.series) > maxSeries {
		t.Errorf("%d series are remembered", len(c.series))
	}
	now = now.Add(time.Hour)
	c.sweep(now, false)
	if len(c.series)+len(c.buckets) > 0 {
		t.Errorf("%d series and %d buckets are remembered", len(c.series), len(c.buckets))
	}
}

func TestObjectsAreBounded(t *testing.T) {
	var c correlator
	now := time.Now()
	for i := range 2 * maxBuckets {
		if !c.observe(about(fmt.Sprint(i), "x"), now) {
			t.Fatalf("event %d is dropped, though the server takes all", i)
		}
		c.write(now)
	}
	if len(c.buckets) > maxBuckets {
		t.Errorf("%d objects are remembered", len(c.buckets))
	}
}

func TestWhatWaitsIsBounded(t *testing.T) {
	var c correlator
	taken := 0
	for i := range 10000 {
		if c.observe(about(fmt.Sprint(i), "x"), time.Now()) {
			taken++
		}
	}
	if taken != maxSeries || c.lanes.queued != maxSeries {
		t.Errorf("%d were taken, %d wait", taken, c.lanes.queued)
	}
}

// TestNothingIsCountedTwiceOrLost compares the counts with the accepted events.
func TestNothingIsCountedTwiceOrLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var c correlator
		now := time.Now()
		taken, known := map[identity]int32{}, map[identity]int32{}
		writeOne := func(rt *rapid.T, ok bool) {
			s := c.lanes.next(now)
			if s == nil {
				return
			}
			if !ok {
				if !c.failed(s, now) {
					delete(taken, s.identity)
					delete(known, s.identity)
				}
				return
			}
			if s.count <= known[s.identity] {
				rt.Errorf("%v is written with %d, which the server knows", s.identity, s.count)
			}
			known[s.identity] = s.count
			c.wrote(s, s.count, now)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"observe": func(rt *rapid.T) {
				id := about(
					rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "object"),
					rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "note"),
				)
				if c.observe(id, now) {
					taken[id]++
				}
			},
			"write": func(rt *rapid.T) { writeOne(rt, true) },
			"fail":  func(rt *rapid.T) { writeOne(rt, false) },
			"later": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 200).Draw(rt, "seconds")) * time.Second)
				c.sweep(now, false)
				for id := range taken {
					if c.series[id] == nil {
						if taken[id] != known[id] {
							rt.Errorf("%v is forgotten with %d of %d", id, known[id], taken[id])
						}
						delete(taken, id)
						delete(known, id)
					}
				}
			},
		})
		c.sweep(now, true)
		for c.lanes.queued > 0 {
			now = now.Add(maxPause)
			writeOne(rt, true)
		}
		for id, n := range taken {
			if known[id] != n {
				rt.Errorf("the server knows of %d of %d %v", known[id], n, id)
			}
		}
	})
}

func TestTextsAreCut(t *testing.T) {
	long := strings.Repeat("é", 2000)
	if got := clean(long); len(got) > maxNote || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: …%q", len(got), got[len(got)-10:])
	}
	if got := clean("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("%q", got)
	}
}
