package kube

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// drafts is a table that several reflectors and builders of indexes change at once: each
// has a draft of its own, and the drafts were begun at different times.
type drafts struct {
	t       *testing.T
	table   *table
	open    map[string]*draft // by the namespace of a reflector
	mine    map[string]map[Key]*entry
	builds  []*building
	indexes []*Index[corev1.ConfigMap, string]
	want    map[Key]*entry
	version int
}

type building struct {
	draft *draft
	by    indexer
}

// Drafts may be made and published beside one another in any order. The content has the
// changes of each of them, and the indexes match the content.
func TestDraftsBesideOneAnother(t *testing.T) {
	c := newAPIServer().client(t)
	rapid.Check(t, func(rt *rapid.T) {
		reader := configMaps(c)
		d := &drafts{
			t: t, table: newTable(reader.handle, nil), want: make(map[Key]*entry),
			open: make(map[string]*draft), mine: make(map[string]map[Key]*entry),
		}
		namespace := rapid.SampledFrom([]string{"a", "b", "c"})
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(rt *rapid.T) {
				ns := namespace.Draw(rt, "namespace")
				if d.open[ns] == nil {
					d.open[ns], d.mine[ns] = d.table.now().draft(), make(map[Key]*entry)
				}
				d.change(rt, ns)
			},
			"publish": func(rt *rapid.T) {
				ns := namespace.Draw(rt, "namespace")
				if d.open[ns] == nil {
					return
				}
				d.table.publish(d.open[ns])
				for key, e := range d.mine[ns] {
					if d.want[key] = e; e == nil {
						delete(d.want, key)
					}
				}
				delete(d.open, ns)
			},
			"declare": func(rt *rapid.T) {
				if len(d.indexes) == 3 {
					return
				}
				x := IndexBy(reader, notes)
				d.indexes = append(d.indexes, x)
				draft := d.table.now().draft()
				found := x.empty()
				for key, e := range draft.next.entries.All() {
					found = found.with(draft.edit, key, x.values(key, e))
				}
				draft.next.indexes = append(draft.next.indexes, builtIndex{x, found})
				d.builds = append(d.builds, &building{draft, x})
			},
			"build": func(rt *rapid.T) {
				if len(d.builds) > 0 {
					d.table.publish(d.builds[0].draft)
					d.builds = d.builds[1:]
				}
			},
			"": d.check,
		})
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
	d.open[ns].set(key, e)
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
			keys, _ := found.at.Get(fmt.Sprint(note))
			for key := range keys.All() {
				if n++; d.want[key] == nil || !slices.Contains(x.by.values(key, d.want[key]).([]string), fmt.Sprint(note)) {
					rt.Fatalf("an index finds %s by %d", key, note)
				}
			}
		}
		if n != len(d.want) || found.of.Len() != n {
			rt.Fatalf("an index has %d objects and knows the values of %d, want %d", n, found.of.Len(), len(d.want))
		}
	}
}
