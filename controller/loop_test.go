package controller

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube"
)

// Whether a reconcile is in a hot loop follows from its depth, and from the reconcile before.
func TestLoops(t *testing.T) {
	for name, test := range map[string]struct {
		hot   bool
		depth int
		want  bool
	}{
		"others' change":                  {false, 0, false},
		"a deep plan":                     {false, hotDepth - 1, false},
		"a loop begins":                   {false, hotDepth, true},
		"a loop continues":                {true, 500, true},
		"a loop continues in a new chain": {true, 1, true},
		"others' change in a loop":        {true, 0, false},
	} {
		if got := loops(test.hot, test.depth); got != test.want {
			t.Errorf("%s: it loops: %t, want %t", name, got, test.want)
		}
	}
}

// deep returns a cause that is a change of an object by a write of a depth, or by others if
// the depth is 0.
func deep(d depths, name string, version, depth int) Cause {
	g := new(gizmo)
	g.Namespace, g.Name, g.UID, g.ResourceVersion = "default", name, types.UID("uid-of-"+name), fmt.Sprint(version)
	was := *g
	was.ResourceVersion = "0"
	c, err := kube.NewChange(&was, g)
	if err != nil {
		panic(err) // both states are of one object
	}
	if depth > 0 {
		d.note(written.Write{UID: g.UID, ResourceVersion: g.ResourceVersion}, depth-1, time.Unix(0, 0))
	}
	return Cause{Reason: Changed, Change: c}
}

// Causes have the least of their depths, however many there are, and whether they are kept or counted.
// Of changes of one object those count that are kept.
func TestDepthOfCauses(t *testing.T) {
	for name, test := range map[string]struct {
		depths []int // of changes
		merged bool  // they are changes of one object
		other  []Cause
		want   int
	}{
		"none":                        {nil, false, nil, 0},
		"own":                         {[]int{7}, false, nil, 7},
		"others'":                     {[]int{0}, false, nil, 0},
		"the least":                   {[]int{9, 7, 8}, false, nil, 7},
		"own and others'":             {[]int{9, 0, 8}, false, nil, 0},
		"merged":                      {[]int{9, 7, 8}, true, nil, 7},
		"merged with others'":         {[]int{0, 7, 8}, true, nil, 0},
		"listed":                      {[]int{9}, false, []Cause{{Reason: Listed}}, 0},
		"triggered":                   {[]int{9}, false, []Cause{{Reason: Triggered}}, 0},
		"requested soon":              {nil, false, []Cause{{Reason: Requested, depth: 5}}, 5},
		"requested for later":         {[]int{9}, false, []Cause{{Reason: Requested}}, 0},
		"a change before the request": {[]int{3}, false, []Cause{{Reason: Requested, depth: 5}}, 3},
		"a change of a source behind": {[]int{3}, false, []Cause{{Reason: Resynced, depth: noDepth}}, 3},
		"a source behind":             {nil, false, []Cause{{Reason: Resynced, depth: noDepth}}, 0},
	} {
		for _, many := range []int{0, 12, 19, 299} {
			for _, first := range []bool{true, false} {
				d, cs := newDepths(), new(causes)
				add := func(c Cause) {
					cs.makeRoom(d)
					cs.add(c)
				}
				own := func() {
					for i := range many {
						at := fmt.Sprint("more-", i)
						if test.merged {
							at = "g"
						}
						add(deep(d, at, 1000+i, 50))
					}
				}
				if first {
					own()
				}
				for i, depth := range test.depths {
					at := fmt.Sprint("g-", i)
					if test.merged {
						at = "g"
					}
					add(deep(d, at, 1+i, depth))
				}
				for _, c := range test.other {
					add(c)
				}
				if !first {
					own()
				}
				want := test.want
				if many > 0 && (name == "none" || name == "a source behind") || test.merged && many > causesKept && !first {
					want = 50
				}
				if depth := cs.depth(d); depth != want {
					t.Errorf("%s, with %d changes more, first %t: depth %d, want %d", name, many, first, depth, want)
				}
				if len(cs.list) > causesKept {
					t.Errorf("%s: %d causes are kept", name, len(cs.list))
				}
			}
		}
	}
}

// A change may come before the answer to the write that it shows. Its depth is known when the
// answer has come. The deletion of an object is known by the uid.
func TestDepthOfWrites(t *testing.T) {
	d, now := newDepths(), time.Unix(0, 0)
	cs := new(causes)
	cs.add(deep(d, "g", 5, 0))
	if depth := cs.depth(d); depth != 0 {
		t.Errorf("before the answer the depth is %d", depth)
	}
	deep(d, "g", 5, 9)
	deep(d, "g", 5, 12) // as the answer to a write that changed nothing says
	if depth := cs.depth(d); depth != 9 {
		t.Errorf("after the answer the depth is %d, want 9", depth)
	}
	d.note(written.Write{UID: "gone", Deleted: true}, 4, now)
	for deleting, want := range map[bool]int{true: 5, false: 0} {
		if depth := d.of(objectState{"gone", "77"}, deleting); depth != want {
			t.Errorf("deleting %t: depth %d, want %d", deleting, depth, want)
		}
	}
	if depth := d.of(objectState{"other", "77"}, true); depth != 0 {
		t.Errorf("an object that others delete has depth %d", depth)
	}
}

// A key may wait for minutes for its turn, while reconciles of many others write. The depth of its
// causes is known then.
func TestDepthsLast(t *testing.T) {
	d, now := newDepths(), time.Unix(1_000_000, 0)
	d.note(written.Write{UID: "x", ResourceVersion: "1"}, 7, now)
	for i := range 400_000 {
		now = now.Add(1500 * time.Microsecond)
		d.note(written.Write{UID: "y", ResourceVersion: fmt.Sprint(i)}, 7, now)
	}
	d.fade(now)
	if depth := d.of(objectState{"x", "1"}, false); depth != 8 {
		t.Errorf("after ten minutes with 400,000 writes the depth is %d", depth)
	}
}

// The memory of writes is bounded, and it ends by itself.
func TestDepthsEnd(t *testing.T) {
	d, now := newDepths(), time.Unix(0, 0)
	note := func(i int) { d.note(written.Write{UID: "x", ResourceVersion: fmt.Sprint(i)}, i, now) }
	for i := range 3*depthsKept + 1 {
		note(i)
	}
	if n := len(d.young) + len(d.old); n > 2*depthsKept {
		t.Errorf("%d writes are remembered", n)
	}
	if depth := d.of(objectState{"x", fmt.Sprint(3 * depthsKept)}, false); depth != 3*depthsKept+1 {
		t.Errorf("the last write has depth %d", depth)
	}
	if now = now.Add(d.period); !d.fade(now) {
		t.Error("the last writes are forgotten")
	}
	if now = now.Add(d.period); d.fade(now) {
		t.Error("writes are remembered for good")
	}
}

// world is some objects, each with a reconcile that writes others. It is the whole of the
// rule, without a clock, a server or a queue that waits.
type world struct {
	depths  depths
	writes  map[int][]int // by the object that is reconciled
	base    map[int]Cause // a change of each object, of a depth that is never the least
	waiting map[int]*causes
	hot     map[int]bool
	version int
	// rested counts the reconciles that had to wait, and free those that had not.
	rested, free int
}

// change changes an object, by a reconcile of a depth or by others.
func (w *world) change(object int, by *int) {
	w.version++
	s := objectState{w.base[object].Change.UID(), fmt.Sprint(w.version)}
	if by != nil {
		w.depths.note(written.Write{UID: s.uid, ResourceVersion: s.version}, *by, time.Unix(0, 0))
	}
	if w.waiting[object] == nil {
		w.waiting[object] = &causes{list: []Cause{w.base[object]}}
	}
	c := &w.waiting[object].list[0]
	c.merged = append(c.merged, mergedChange{version: s.version})
}

// step reconciles one of the waiting objects. It returns false if none waits.
func (w *world) step(pick int) bool {
	var all []int
	for object := range len(w.writes) {
		if w.waiting[object] != nil {
			all = append(all, object)
		}
	}
	if len(all) == 0 {
		return false
	}
	object := all[pick%len(all)]
	depth := w.waiting[object].depth(w.depths)
	delete(w.waiting, object)
	rests := loops(w.hot[object], depth)
	if rests {
		w.rested++
	} else {
		w.free++
	}
	for _, other := range w.writes[object] {
		w.change(other, &depth)
	}
	w.hot[object] = rests && len(w.writes[object]) > 0
	return true
}

func newWorld(objects int) *world {
	w := &world{
		depths: newDepths(), writes: make(map[int][]int), waiting: make(map[int]*causes), hot: make(map[int]bool),
		base: make(map[int]Cause),
	}
	for i := range objects {
		w.writes[i], w.base[i] = nil, deep(w.depths, fmt.Sprint(i), 0, math.MaxInt32)
	}
	return w
}

// No graph of objects without a cycle is a hot loop, whatever others change meanwhile, and in
// whatever order its objects are reconciled.
func TestNoLoopWithoutACycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := rapid.IntRange(1, 95).Draw(t, "objects")
		w := newWorld(objects)
		for i := range objects - 1 {
			for range rapid.IntRange(0, 2).Draw(t, "writes") {
				w.writes[i] = append(w.writes[i], rapid.IntRange(i+1, objects-1).Draw(t, "object"))
			}
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 1000 {
			if random.IntN(10) == 0 {
				w.change(random.IntN(objects), nil)
			}
			w.step(random.IntN(objects))
		}
		if w.rested > 0 {
			t.Errorf("%d reconciles rested", w.rested)
		}
	})
}

// Each cycle of objects is found, however long it is and whatever else its objects write, and
// it is slowed down from then on.
func TestEachCycleIsALoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cycle := rapid.IntRange(1, 20).Draw(t, "cycle")
		more := rapid.IntRange(0, 10).Draw(t, "more")
		w := newWorld(cycle + more)
		for i := range cycle {
			w.writes[i] = append(w.writes[i], (i+1)%cycle)
			for range rapid.IntRange(0, 1).Draw(t, "writes") {
				w.writes[i] = append(w.writes[i], rapid.IntRange(0, cycle+more-1).Draw(t, "object"))
			}
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		w.change(random.IntN(cycle), nil)
		// Two chains in one cycle, and objects beside it, make more reconciles of each depth.
		most := 6 * (cycle + more) * (hotDepth + cycle)
		for range most {
			if !w.step(random.IntN(cycle + more)) {
				t.Fatal("the cycle has ended")
			}
		}
		if w.rested == 0 {
			t.Errorf("no loop after %d reconciles", most)
		}
		w.free, w.rested = 0, 0
		for range 3 * (cycle + more) {
			w.step(random.IntN(cycle + more))
		}
		if w.free > 0 {
			t.Errorf("%d reconciles did not rest", w.free)
		}
	})
}
