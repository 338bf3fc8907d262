package threeway

import (
	"fmt"
	"reflect"
)

// names holds the members that tell the items of a list apart, if all items have the
// member and no two share its value: the map keys of Kubernetes' own lists.
var names = [...]string{
	"name", "key", "type", "uid", "id", "ip", "mountPath", "devicePath", "containerPort", "topologyKey",
}

func (m *merger) list(at string, raw, before any, after []any) (any, error) {
	old, wasList := before.([]any)
	have, isList := raw.([]any)
	switch {
	case isNothing(raw) && !wasList, !isList && !wasList:
		return m.fresh(after), nil
	case len(have) != len(old):
		return nil, fmt.Errorf("%w: %s: the server's list has %d items, the type sees %d", ErrAmbiguous, place(at), len(have),
			len(old))
	}
	origin, err := m.align(at, have, old, after)
	if err != nil {
		return nil, err
	}
	m.inList++
	defer func() { m.inList-- }()
	out := make([]any, len(after))
	for j, to := range after {
		i := origin[j]
		switch {
		case i < 0 || to == nil && old[i] != nil:
			out[j] = m.fresh(to)
		default:
			if out[j], err = m.merge(item(at, j), have[i], old[i], to); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// align returns, for each item after the change, the index of the same item before the
// change, or -1 if the item is new.
func (m *merger) align(at string, have, old, after []any) ([]int, error) {
	a := alignment{have: have, old: old, after: after, origin: make([]int, len(after)), used: make([]bool, len(old))}
	for j := range a.origin {
		a.origin[j] = -1
	}
	name := nameOf(old, after)
	if name != "" {
		a.matchByName(name)
	} else if !a.matchEqual() {
		return nil, fmt.Errorf("%w: %s: some items were removed, and the type cannot tell them from the others", ErrAmbiguous,
			place(at))
	}
	unclear := a.fillSlots(name != "")
	if unclear {
		return nil, fmt.Errorf("%w: %s: the items cannot be matched, and some have members that the type does not name",
			ErrAmbiguous, place(at))
	}
	return a.origin, nil
}

type alignment struct {
	have, old, after []any
	origin           []int  // by index after: the index before, or -1
	used             []bool // by index before
}

func (a *alignment) pair(i, j int) { a.origin[j], a.used[i] = i, true }

// unknown reports that item i holds something that the type does not name.
func (a *alignment) unknown(i int) bool { return hasUnknown(a.have[i], a.old[i]) }

// nameOf returns the member that names the items of both lists, or "".
func nameOf(before, after []any) string {
	if len(before) == 0 || len(after) == 0 {
		return ""
	}
	for _, name := range names {
		if namesAll(name, before) && namesAll(name, after) {
			return name
		}
	}
	return ""
}

func namesAll(name string, list []any) bool {
	seen := make(map[any]bool, len(list))
	for _, v := range list {
		object, _ := v.(map[string]any)
		value := member(object, name)
		switch value.(type) {
		case string, number:
		default:
			return false
		}
		if value == "" || seen[value] {
			return false
		}
		seen[value] = true
	}
	return true
}

func (a *alignment) matchByName(name string) {
	index := make(map[any]int, len(a.old))
	for i, v := range a.old {
		index[v.(map[string]any)[name]] = i
	}
	for j, v := range a.after {
		if i, ok := index[v.(map[string]any)[name]]; ok {
			a.pair(i, j)
		}
	}
}

// matchEqual pairs equal items, in order. It returns false if it had to choose between
// items that are equal to the type but not to the server.
func (a *alignment) matchEqual() bool {
	groups := map[string][]int{}
	for i, v := range a.old {
		text, err := encode(v)
		if err != nil {
			return false
		}
		groups[string(text)] = append(groups[string(text)], i)
	}
	for j, v := range a.after {
		text, err := encode(v)
		if err != nil {
			return false
		}
		if group := groups[string(text)]; len(group) > 0 {
			a.pair(group[0], j)
			groups[string(text)] = group[1:]
		}
	}
	for _, left := range groups {
		for _, i := range left {
			for k := range a.old {
				if a.used[k] && equal(a.old[k], a.old[i]) && !equal(a.have[k], a.have[i]) && (a.unknown(i) || a.unknown(k)) {
					return false
				}
			}
		}
	}
	return true
}

// slot is a run of items between matched ones.
type slot struct{ before, after []int }

// fillSlots pairs items that were changed in place. It reports whether the origin of an
// item stays unclear and the origin matters.
func (a *alignment) fillSlots(named bool) (unclear bool) {
	slots := map[int]*slot{} // by the index before of the matched item on the left
	get := func(left int) *slot {
		if slots[left] == nil {
			slots[left] = &slot{}
		}
		return slots[left]
	}
	left := -1
	for i := range a.old {
		if a.used[i] {
			left = i
		} else {
			get(left).before = append(get(left).before, i)
		}
	}
	left = -1
	for j := range a.after {
		if a.origin[j] >= 0 {
			left = a.origin[j]
		} else {
			get(left).after = append(get(left).after, j)
		}
	}
	for _, s := range slots {
		if len(s.before) == 0 || len(s.after) == 0 || !a.anyUnknown(s.before) {
			continue
		}
		if named || len(s.before) != len(s.after) || a.crossed(s) {
			return true
		}
		for k, i := range s.before {
			a.pair(i, s.after[k])
		}
	}
	if named {
		return false // an item of another name is another item
	}
	var gone, come []int
	for i := range a.old {
		if !a.used[i] {
			gone = append(gone, i)
		}
	}
	for j := range a.after {
		if a.origin[j] < 0 {
			come = append(come, j)
		}
	}
	return len(come) > 0 && a.anyUnknown(gone)
}

func (a *alignment) anyUnknown(items []int) bool {
	for _, i := range items {
		if a.unknown(i) {
			return true
		}
	}
	return false
}

// crossed reports that an item resembles the item at another place more than the item at
// its own place: then the item may have moved.
func (a *alignment) crossed(s *slot) bool {
	for k, i := range s.before {
		own := likeness(a.old[i], a.after[s.after[k]])
		for l := range s.after {
			if l != k && likeness(a.old[i], a.after[s.after[l]]) > own {
				return true
			}
		}
	}
	return false
}

// likeness counts the members that two objects have in common.
func likeness(a, b any) int {
	x, ok := a.(map[string]any)
	y, both := b.(map[string]any)
	if !ok || !both {
		return 0
	}
	n := 0
	for name, value := range x {
		if reflect.DeepEqual(member(y, name), value) {
			n++
		}
	}
	return n
}
