package hamt

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// hashesOf runs a test with hashes that differ only in some number of bits.
func hashesOf(t *testing.T, test func(*testing.T)) {
	for name, mask := range map[string]uint64{
		"whole": math.MaxUint64, "4 bits": 0x8421, "the last bits": 0xf << 60, "none": 0,
	} {
		t.Run(name, func(t *testing.T) {
			hashMask = mask
			defer func() { hashMask = math.MaxUint64 }()
			test(t)
		})
	}
}

// both is a map beside a Go map with the expected content.
type both struct {
	is   Map[int, int]
	want map[int]int
}

// After any series of changes, a map has the same content as a Go map. The maps that were
// changed stay as they were. The differences of any two maps are those of the Go maps.
func TestLikeAGoMap(t *testing.T) {
	hashesOf(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			now := both{want: make(map[int]int)}
			kept := []both{{want: make(map[int]int)}}
			key := rapid.IntRange(0, rapid.SampledFrom([]int{5, 100, 600}).Draw(t, "keys"))
			value := rapid.IntRange(0, 3)
			step := func(edit *Edit) {
				k := key.Draw(t, "key")
				if rapid.IntRange(0, 2).Draw(t, "step") == 0 {
					now.is = now.is.Without(edit, k)
					delete(now.want, k)
					return
				}
				v := value.Draw(t, "value")
				now.is = now.is.With(edit, k, v)
				now.want[k] = v
			}
			t.Repeat(map[string]func(*rapid.T){
				"change": func(*rapid.T) { step(nil) },
				"edit": func(t *rapid.T) {
					edit := new(Edit)
					for range rapid.IntRange(1, 60).Draw(t, "changes") {
						step(edit)
					}
				},
				"clear": func(*rapid.T) {
					edit := new(Edit)
					for k := range now.want {
						now.is = now.is.Without(edit, k)
					}
					clear(now.want)
				},
				"keep": func(*rapid.T) { kept = append(kept, both{now.is, maps.Clone(now.want)}) },
				"compare": func(t *rapid.T) {
					compare(t, rapid.SampledFrom(kept).Draw(t, "was"), rapid.SampledFrom(append(kept, now)).Draw(t, "is"))
				},
				"": func(t *rapid.T) { now.check(t) },
			})
			for _, k := range kept {
				k.check(t)
				compare(t, k, now)
				compare(t, now, k)
			}
		})
	})
}

func (b both) check(t *rapid.T) {
	if got := maps.Collect(b.is.All()); !maps.Equal(got, b.want) || b.is.Len() != len(b.want) {
		t.Fatalf("the map has %d: %v\nwant %v", b.is.Len(), got, b.want)
	}
	for k := range 6 {
		v, ok := b.is.Get(k)
		if want, there := b.want[k]; v != want || ok != there {
			t.Fatalf("key %d has %d, %v, want %d, %v", k, v, ok, want, there)
		}
	}
	b.is.root.checkShape(t, 0)
}

// checkShape reports a node that a map with the same keys would not have.
func (n *node[K, V]) checkShape(t *rapid.T, shift uint) {
	if n == nil {
		return
	}
	for _, child := range n.children {
		if len(child.entries)+2*len(child.children) < 2 {
			t.Fatalf("a node below the root has %d entries and no child", len(child.entries))
		}
		child.checkShape(t, shift+levelBits)
	}
	fits := n.has&n.goes == 0 && bits.OnesCount32(n.has) == len(n.entries) && bits.OnesCount32(n.goes) == len(n.children)
	if shift < hashBits && !fits || cap(n.entries) > len(n.entries)+len(n.entries)/4+8 {
		t.Fatalf("a node has %b and %b, %d entries of %d, %d children",
			n.has, n.goes, len(n.entries), cap(n.entries), len(n.children))
	}
}

func compare(t *rapid.T, was, is both) {
	var want []string
	for k := range was.want {
		if v, ok := is.want[k]; !ok || v != was.want[k] {
			want = append(want, line(was, is, k))
		}
	}
	for k := range is.want {
		if _, ok := was.want[k]; !ok {
			want = append(want, line(was, is, k))
		}
	}
	var got []string
	for c := range Diff(was.is, is.is) {
		l := fmt.Sprint(c.Key)
		for _, v := range []*int{c.Was, c.Is} {
			if v == nil {
				l += " none"
				continue
			}
			l += fmt.Sprint(" ", *v)
		}
		got = append(got, l)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the maps differ in\n%q\nwant\n%q", got, want)
	}
	left := rapid.IntRange(0, len(want)).Draw(t, "left after")
	seen := 0
	for range Diff(was.is, is.is) {
		if seen++; seen > left {
			break
		}
	}
	if seen != min(left+1, len(want)) {
		t.Fatalf("%d differences were yielded to a loop that was left after %d", seen, left+1)
	}
}

func line(was, is both, key int) string {
	l := fmt.Sprint(key)
	for _, m := range []map[int]int{was.want, is.want} {
		if v, ok := m[key]; ok {
			l += fmt.Sprint(" ", v)
		} else {
			l += " none"
		}
	}
	return l
}

// The cost of a difference depends on the number of changes, not on the size of the maps.
func TestDiffPassesOverWhatIsShared(t *testing.T) {
	var was Map[int, int]
	edit := new(Edit)
	for i := range 100_000 {
		was = was.With(edit, i, i)
	}
	is := was.With(nil, 7, -1).Without(nil, 8).With(nil, -9, 9)
	if n := shared(was.root, is.root); n > 40 {
		t.Errorf("three changes made %d nodes", n)
	}
	n := 0
	for range Diff(was, is) {
		n++
	}
	if n != 3 {
		t.Errorf("%d differences after three changes", n)
	}
}

// shared counts the nodes that are in both maps.
func shared[K comparable, V any](a, b *node[K, V]) int {
	nodes := make(map[*node[K, V]]bool)
	var walk func(n *node[K, V], f func(*node[K, V]))
	walk = func(n *node[K, V], f func(*node[K, V])) {
		f(n)
		for _, c := range n.children {
			walk(c, f)
		}
	}
	walk(a, func(n *node[K, V]) { nodes[n] = true })
	others := 0
	walk(b, func(n *node[K, V]) {
		if !nodes[n] {
			others++
		}
	})
	return others
}

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		var m Map[[2]string, *int]
		edit := new(Edit)
		for i := range 200_000 {
			m = m.With(edit, [2]string{"default", keys[i]}, nil)
		}
	}
}

func BenchmarkWith(b *testing.B) {
	var m Map[[2]string, *int]
	edit := new(Edit)
	for _, k := range keys {
		m = m.With(edit, [2]string{"default", k}, nil)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m = m.With(nil, [2]string{"default", keys[i%len(keys)]}, nil)
	}
}

func BenchmarkGet(b *testing.B) {
	var m Map[[2]string, *int]
	edit := new(Edit)
	for _, k := range keys {
		m = m.With(edit, [2]string{"default", k}, nil)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, ok := m.Get([2]string{"default", keys[i%len(keys)]}); !ok {
			b.Fatal("a key is missing")
		}
	}
}

var keys = func() []string {
	list := make([]string, 200_000)
	for i := range list {
		list[i] = fmt.Sprint("web-7d9c5b9f6-", i)
	}
	return list
}()

func BenchmarkHash(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		hashOf([2]string{"default", keys[i%len(keys)]})
	}
}

func BenchmarkGoMap(b *testing.B) {
	m := make(map[[2]string]*int)
	for _, k := range keys {
		m[[2]string{"default", k}] = nil
	}
	for i := 0; b.Loop(); i++ {
		if _, ok := m[[2]string{"default", keys[i%len(keys)]}]; !ok {
			b.Fatal("a key is missing")
		}
	}
}

// A built map has the same nodes as a map that was made by changes, and can be changed.
func TestBuilder(t *testing.T) {
	hashesOf(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			var builder Builder[int, int]
			for range 3 {
				edit := new(Edit)
				built := both{want: make(map[int]int)}
				var changed Map[int, int]
				n := rapid.SampledFrom([]int{0, 1, 2, 40, 600}).Draw(t, "entries")
				step := rapid.IntRange(1, 1000).Draw(t, "step")
				for i := range n {
					k, v := i*step, i%4
					builder.Add(k, v)
					changed = changed.With(nil, k, v)
					built.want[k] = v
				}
				built.is = builder.Map(edit)
				built.check(t)
				if hashMask != 0 { // if all hashes are equal, there is no order
					wantSameNodes(t, built.is.root, changed.root)
				}
				k := step * rapid.IntRange(0, 2*n).Draw(t, "key")
				before := both{changed, maps.Clone(built.want)}
				built.is, built.want[k] = built.is.With(edit, k, -1), -1
				built.check(t)
				built.is = built.is.Without(edit, k)
				delete(built.want, k)
				built.check(t)
				compare(t, before, built)
			}
		})
	})
}

func wantSameNodes(t *rapid.T, a, b *node[int, int]) {
	if a == nil || b == nil {
		if a != b {
			t.Fatalf("the root is %v, want %v", a, b)
		}
		return
	}
	if a.has != b.has || a.goes != b.goes || len(a.entries) != len(b.entries) || len(a.children) != len(b.children) {
		t.Fatalf("a node is %+v, want %+v", a, b)
	}
	for i := range a.children {
		wantSameNodes(t, a.children[i], b.children[i])
	}
}

func BenchmarkBuilder(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var build Builder[[2]string, *int]
		for _, k := range keys {
			build.Add([2]string{"default", k}, nil)
		}
		build.Map(new(Edit))
	}
}
