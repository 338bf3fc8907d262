package threeway

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// merger carries changes over to the server's object.
type merger struct {
	// whole holds the paths of removed members that are removed with all their content.
	whole map[string]bool
	// kept holds the paths of removed members whose unknown part stays. Outer members
	// come before the members inside them.
	kept []string
	// nulls keeps null members in the items of lists, the only place where a merge patch
	// can set them. A null that stands for a nil is best not sent.
	nulls  bool
	inList int
}

// merge returns raw with the change from before to after. Any of them may be
// absent, and so may the outcome.
func (m *merger) merge(at string, raw, before, after any) (any, error) {
	if at == "" {
		m.kept = nil
	}
	if equal(before, after) {
		return raw, nil
	}
	switch after := after.(type) {
	case nil, missing:
		if after == nil && m.nulls && m.inList > 0 {
			return nil, nil
		}
		return m.remove(at, raw, before), nil
	case map[string]any:
		return m.object(at, raw, before, after)
	case []any:
		return m.list(at, raw, before, after)
	}
	return after, nil
}

func (m *merger) object(at string, raw, before any, after map[string]any) (any, error) {
	old, wasObject := before.(map[string]any)
	have, isObject := raw.(map[string]any)
	if !isObject {
		if wasObject && !isNothing(raw) {
			return nil, fmt.Errorf("%w: %s: it is an object in the type but not on the server", ErrAmbiguous, place(at))
		}
		if !isNothing(raw) {
			return m.fresh(after), nil // of another kind before, to the type and to the server
		}
	}
	out := make(map[string]any, len(have)+len(after))
	maps.Copy(out, have)
	change := func(name string, to any) error {
		next, err := m.merge(join(at, name), member(have, name), member(old, name), to)
		if err != nil {
			return err
		}
		if next == absent {
			delete(out, name)
		} else {
			out[name] = next
		}
		return nil
	}
	for name, to := range after {
		if err := change(name, to); err != nil {
			return nil, err
		}
	}
	for name := range old {
		if _, ok := after[name]; !ok {
			if err := change(name, absent); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// fresh returns a value that is new to the server, as it is sent.
func (m *merger) fresh(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			if value != nil || m.nulls && m.inList > 0 {
				out[name] = m.fresh(value)
			}
		}
		return out
	case []any:
		m.inList++
		defer func() { m.inList-- }()
		out := make([]any, len(v))
		for i := range v {
			out[i] = m.fresh(v[i])
		}
		return out
	}
	return v
}

// remove returns the remainder of a member that the change removed.
func (m *merger) remove(at string, raw, before any) any {
	if isNothing(raw) {
		return raw
	}
	have, ok := raw.(map[string]any)
	known, both := before.(map[string]any)
	if !ok || !both || m.whole[at] || !hasUnknown(have, known) {
		return absent
	}
	m.kept = append(m.kept, at)
	out := map[string]any{}
	for name, value := range have {
		rest := value
		if k, ok := known[name]; ok {
			rest = m.remove(join(at, name), value, k)
		}
		if rest != absent {
			out[name] = rest
		}
	}
	return out
}

// hasUnknown reports that the server's value has members that the type's value does not
// have. Nulls and empty objects do not count.
func hasUnknown(raw, known any) bool {
	switch raw := raw.(type) {
	case map[string]any:
		k, ok := known.(map[string]any)
		if !ok {
			return len(raw) > 0
		}
		for name, value := range raw {
			if hasUnknown(value, member(k, name)) {
				return true
			}
		}
		return false
	case []any:
		k, ok := known.([]any)
		if !ok || len(k) != len(raw) {
			return len(raw) > 0
		}
		for i := range raw {
			if hasUnknown(raw[i], k[i]) {
				return true
			}
		}
		return false
	case nil, missing:
		return false
	}
	return known == absent
}

// retry marks members for removal as a whole: those that were removed and that the type
// still sees. It begins with the innermost member, which may be the reason why the
// members around it are seen. It reports whether there was any such member.
func (m *merger) retry(seen any) bool {
	var still []string
	for _, at := range m.kept {
		if !isNothing(lookup(seen, at)) {
			still = append(still, at)
		}
	}
	for _, at := range still {
		inner := func(other string) bool { return strings.HasPrefix(other, at+"/") }
		if !slices.ContainsFunc(still, inner) {
			m.whole[at] = true
		}
	}
	return len(still) > 0
}

func isNothing(v any) bool { return v == nil || v == absent }

func member(object map[string]any, name string) any {
	if v, ok := object[name]; ok {
		return v
	}
	return absent
}

// Paths are JSON pointers (RFC 6901) without escapes in array indices.

func join(at, name string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func item(at string, i int) string { return at + "/" + strconv.Itoa(i) }

func place(at string) string {
	if at == "" {
		return "the object"
	}
	return at
}

func lookup(v any, at string) any {
	for _, part := range strings.Split(at, "/")[1:] {
		switch x := v.(type) {
		case map[string]any:
			v = member(x, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(x) {
				return absent
			}
			v = x[i]
		default:
			return absent
		}
	}
	return v
}
