package kube

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/kube/internal/hamt"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// drafts is a table that several reflectors and builders of indexes change at once: each
// has a draft of its own, and the drafts were begun at different times.
type drafts struct {
	t       *testing.T
	table   *table
	open    map[string]*begun // by the namespace of a reflector
	mine    map[string]map[Key]*entry
	builds  []*begun
	indexes []*Index[corev1.ConfigMap, string]
	want    map[Key]*entry
	version int
	loops   []*steppedLoop
}

// steppedLoop is a loop that is shown every step. The test decides when.
type steppedLoop struct {
	sub   *subscription
	shown map[Key]*entry
	due   map[Key][]*entry // the states that the loop has not been shown, nil for none
}

func (d *drafts) addLoop() {
	sub := &subscription{table: d.table, wake: make(chan struct{}, 1), every: true}
	l := &steppedLoop{sub, make(map[Key]*entry), make(map[Key][]*entry)}
	for key, e := range d.want {
		l.due[key] = []*entry{e}
	}
	d.table.followers.add(l.sub)
	d.loops = append(d.loops, l)
}

// show lets the loop see one snapshot. It calls between at every change.
func (l *steppedLoop) show(rt *rapid.T, between func()) (more bool) {
	more, left := l.sub.round(rt.Context(), func(c Change) bool {
		if c.Type == Synced {
			rt.Fatal("steps were left out")
		}
		due, was := l.due[c.Key], l.shown[c.Key]
		switch {
		case len(due) == 0 || c.was != was:
			rt.Fatalf("%s %s goes from %p to %p, after %p and before %p", c.Type, c.Key, c.was, c.is, was, due)
		case c.Type == Deleted:
			if was == nil || !c.is.Is(was.UID()) || due[0] != nil && due[0].Is(was.UID()) {
				rt.Fatalf("%s is deleted after %p and before %p", c.Key, was, due)
			}
			if delete(l.shown, c.Key); due[0] == nil {
				l.due[c.Key] = due[1:]
			}
		case c.is != due[0] || (c.Type == Added) != (was == nil):
			rt.Fatalf("%s %s goes from %p to %p, before %p", c.Type, c.Key, c.was, c.is, due)
		default:
			l.shown[c.Key], l.due[c.Key] = c.is, due[1:]
		}
		between()
		return true
	})
	if left {
		rt.Fatal("the loop was left")
	}
	return more
}

// publish publishes the draft of a namespace.
func (d *drafts) publish(ns string) {
	if d.open[ns] == nil {
		return
	}
	for key, e := range d.mine[ns] {
		if was := d.want[key]; was != nil && (e == nil || !e.Is(was.UID())) {
			was.SetOwn() // as if this process had written it
		}
	}
	d.open[ns].end(d.table)
	for key, e := range d.mine[ns] {
		if e == d.want[key] {
			continue
		}
		for _, l := range d.loops {
			l.due[key] = append(l.due[key], e)
		}
		if d.want[key] = e; e == nil {
			delete(d.want, key)
		}
	}
	delete(d.open, ns)
}

// begun is a write that has made a draft of the content as it was, and goes on later.
type begun struct {
	was   *snapshot
	draft *draft
	f     func(*draft)
}

func begin(t *table, f func(*draft)) *begun {
	b := &begun{was: t.now(), f: f}
	b.draft = b.was.draft(new(indexKeys))
	return b
}

func (b *begun) end(t *table) {
	for b.f(b.draft); !t.replace(b.was, b.draft, b.f); b.f(b.draft) {
		b.was = t.now()
		b.draft = b.was.draft(b.draft.known)
	}
}

// Drafts may be made and published beside one another in any order. The content has the
// changes of each of them, and the indexes match the content. Loops over steps, which are
// behind by any number of them, are shown each state of each object, in order.
func TestDraftsBesideOneAnother(t *testing.T) {
	c := newAPIServer().client(t)
	rapid.Check(t, func(rt *rapid.T) {
		reader := configMaps(c)
		d := &drafts{
			t: t, table: newTable(reader.handle, nil), want: make(map[Key]*entry),
			open: make(map[string]*begun), mine: make(map[string]map[Key]*entry),
		}
		namespace := rapid.SampledFrom([]string{"a", "b", "c"})
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(rt *rapid.T) {
				ns := namespace.Draw(rt, "namespace")
				if d.open[ns] == nil {
					mine := make(map[Key]*entry)
					d.mine[ns] = mine
					d.open[ns] = begin(d.table, func(d *draft) {
						for key, e := range mine {
							d.set(key, e)
						}
					})
				}
				d.change(rt, ns)
			},
			"publish": func(rt *rapid.T) {
				d.publish(namespace.Draw(rt, "namespace"))
			},
			"loop": func(rt *rapid.T) {
				if len(d.loops) < 3 {
					d.addLoop()
				}
			},
			"show": func(rt *rapid.T) {
				for _, l := range d.loops {
					if rapid.Bool().Draw(rt, "this loop") {
						l.show(rt, func() {
							if rapid.Bool().Draw(rt, "meanwhile") {
								d.publish(namespace.Draw(rt, "namespace"))
							}
						})
					}
				}
			},
			"declare": func(rt *rapid.T) {
				if len(d.indexes) == 3 {
					return
				}
				x := IndexBy(reader, notes)
				d.indexes = append(d.indexes, x)
				of := d.table.now().entries
				into := []collector{x.collector()}
				if _, err := collect(rt.Context(), of, into); err != nil {
					rt.Fatal(err)
				}
				found := into[0].indexed(new(hamt.Edit))
				d.builds = append(d.builds, begin(d.table, func(d *draft) { d.addIndex(x, found, of) }))
			},
			"build": func(rt *rapid.T) {
				if len(d.builds) > 0 {
					d.builds[0].end(d.table)
					d.builds = d.builds[1:]
				}
			},
			"": d.check,
		})
		for _, l := range d.loops {
			for l.show(rt, func() {}) {
			}
			if !maps.Equal(l.shown, d.want) {
				rt.Fatalf("at the end a loop was shown %v, want %v", l.shown, d.want)
			}
		}
	})
}

func (d *drafts) change(rt *rapid.T, ns string) {
	key := Key{ns, fmt.Sprint("o", rapid.IntRange(0, 3).Draw(rt, "object"))}
	var e *entry
	if rapid.Bool().Draw(rt, "put") {
		d.version++
		cm := &corev1.ConfigMap{Data: map[string]string{"note": fmt.Sprint(rapid.IntRange(0, 2).Draw(rt, "note"))}}
		cm.Namespace, cm.Name, cm.ResourceVersion = ns, key.Name, fmt.Sprint(d.version)
		cm.UID = types.UID(fmt.Sprint("uid", rapid.IntRange(0, 1).Draw(rt, "uid")))
		e = wire.NewEntry(recordOf(rt, d.table.handle.codec, cm))
	}
	d.mine[ns][key] = e
}

func (d *drafts) check(rt *rapid.T) {
	now := d.table.now()
	if got := maps.Collect(now.entries.All()); !maps.Equal(got, d.want) {
		rt.Fatalf("the content is %v, want %v", slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(d.want)))
	}
	size := int64(0)
	for _, e := range d.want {
		size += int64(e.Size())
	}
	if now.size != size || now.entries.Len() != len(d.want) {
		rt.Fatalf("the size is %d, want %d", now.size, size)
	}
	for _, x := range now.indexes {
		found := x.found.(keyIndex[string])
		n := 0
		for note := range 3 {
			keys, ok := found.at.Get(fmt.Sprint(note))
			if !ok {
				continue
			}
			for key := range keys.All() {
				of := &reading{entry: d.want[key]}
				if n++; of.entry == nil || !slices.Contains(x.by.values(key, of).([]string), fmt.Sprint(note)) {
					rt.Fatalf("an index finds %s by %d", key, note)
				}
			}
		}
		if n != len(d.want) || found.of.Len() != n {
			rt.Fatalf("an index has %d objects and knows the values of %d, want %d", n, found.of.Len(), len(d.want))
		}
	}
}
