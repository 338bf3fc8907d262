package threeway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

var (
	// ErrAmbiguous is wrapped if the change to a list cannot be carried over without
	// guessing which of its items became which.
	ErrAmbiguous = errors.New("ambiguous change")
	// ErrInexpressible is wrapped if no merge patch makes the change.
	ErrInexpressible = errors.New("a merge patch cannot make this change")
)

// Project decodes an object into the Go type and returns the type's JSON of the object.
type Project func(object []byte) ([]byte, error)

// Patch returns the merge patch that makes the change from before to after on raw. It
// returns nil if nothing changed. before must be the output of project for raw. after
// must be the output of the same encoder for the changed value.
func Patch(raw, before, after []byte, project Project) ([]byte, error) {
	c := change{project: project, express: asMergePatch}
	if changed, err := c.parse(raw, before, after); err != nil || !changed {
		return nil, err
	}
	patch, _, err := c.search(&merger{whole: map[string]bool{}})
	if err != nil || patch == nil {
		return nil, err
	}
	return encode(patch)
}

// change is the input of one call of [Patch] or [JSONPatch].
type change struct {
	raw, before, after any
	project            Project
	seen               any // the outcome of the last try, as the type sees it
	// express returns the patch that makes next of raw, nil if there is no difference, and
	// the outcome of that patch.
	express func(raw, next any) (patch, outcome any)
}

// asMergePatch expresses a change as a merge patch.
func asMergePatch(raw, next any) (patch, outcome any) {
	p, changed := diff(raw, next)
	if !changed {
		return nil, raw
	}
	return p, apply(raw, p)
}

// parse reads the three states of the object. It reports whether the type sees a change.
func (c *change) parse(raw, before, after []byte) (changed bool, err error) {
	for _, doc := range []struct {
		what string
		text []byte
		into *any
	}{
		{"the server's object", raw, &c.raw},
		{"the object before the change", before, &c.before},
		{"the object after the change", after, &c.after},
	} {
		v, err := parse(doc.text)
		if err != nil {
			return false, fmt.Errorf("parse %s: %w", doc.what, err)
		}
		if _, ok := v.(map[string]any); !ok {
			return false, fmt.Errorf("parse %s: not a JSON object", doc.what)
		}
		*doc.into = v
	}
	return !equal(c.before, c.after), nil
}

// search returns the correct patch that loses the least, and its outcome.
func (c *change) search(m *merger) (patch, outcome any, err error) {
	for {
		patch, outcome, wrong, err := c.try(m)
		switch {
		case err != nil:
			return nil, nil, err
		case wrong == "":
			patch, outcome = c.relent(m, patch, outcome)
			return patch, outcome, nil
		case m.retry(c.seen):
		case !m.nulls:
			m.nulls = true
		default:
			return nil, nil, fmt.Errorf("%w: %s would differ from the change", ErrInexpressible, wrong)
		}
	}
}

// try makes a patch and looks at its outcome. wrong is the path at which the outcome, as the
// type sees it, differs from the requested change.
func (c *change) try(m *merger) (patch, outcome any, wrong string, err error) {
	next, err := m.merge("", c.raw, c.before, c.after)
	if err != nil {
		return nil, nil, "", err
	}
	patch, outcome = c.express(c.raw, next)
	c.seen, err = c.projection(outcome)
	if err != nil || equal(c.seen, c.after) {
		return patch, outcome, "", err
	}
	// The requested value may read differently once encoded.
	canonical, err := c.projection(c.after)
	if err != nil {
		return nil, nil, "", err
	}
	wrong, differ := firstDifference("", c.seen, canonical)
	if differ {
		wrong = place(wrong)
	}
	return patch, outcome, wrong, nil
}

// relent takes back removals that m did not have to make as a whole: if several nested
// members were still seen, one of them may have been the cause of the others.
func (c *change) relent(m *merger, patch, outcome any) (milder, its any) {
	if len(m.whole) == 1 {
		return patch, outcome
	}
	for _, at := range slices.Sorted(maps.Keys(m.whole)) {
		delete(m.whole, at)
		p, o, wrong, err := c.try(m)
		if err != nil || wrong != "" {
			m.whole[at] = true
			continue
		}
		patch, outcome = p, o
	}
	return patch, outcome
}

func (c *change) projection(object any) (any, error) {
	text, err := encode(object)
	if err == nil {
		text, err = c.project(text)
	}
	if err != nil {
		return nil, fmt.Errorf("check patch: %w", err)
	}
	return parse(text)
}

// Precondition restricts a merge patch to one object at one version: the server answers
// with a conflict for any other object or version.
func Precondition(patch []byte, uid, resourceVersion string) ([]byte, error) {
	v, err := parse(patch)
	if err != nil {
		return nil, fmt.Errorf("parse merge patch: %w", err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("parse merge patch: not a JSON object")
	}
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
	}
	for name, value := range map[string]string{"uid": uid, "resourceVersion": resourceVersion} {
		if value != "" {
			meta[name] = value
		}
	}
	object["metadata"] = meta
	return encode(object)
}

// diff returns the merge patch from one value to another, and whether there is
// a difference.
func diff(from, to any) (any, bool) {
	f, ok := from.(map[string]any)
	t, both := to.(map[string]any)
	if !ok || !both {
		return withoutNulls(to), !equal(from, to)
	}
	patch := map[string]any{}
	for name := range f {
		if _, ok := t[name]; !ok {
			patch[name] = nil
		}
	}
	for name, value := range t {
		old, ok := f[name]
		if !ok && value == nil {
			continue // a patch cannot express it, and it reads the same
		}
		if !ok {
			old = absent
		}
		if p, changed := diff(old, value); changed {
			patch[name] = p
		}
	}
	return patch, len(patch) > 0
}

// withoutNulls returns a value as a merge patch can set it: null members would mean
// removal. Lists are sent whole, with their nulls.
func withoutNulls(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(object))
	for name, member := range object {
		if member != nil {
			out[name] = withoutNulls(member)
		}
	}
	return out
}

// apply applies a merge patch, as section 2 of RFC 7386 says.
func apply(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	old, _ := target.(map[string]any)
	out := make(map[string]any, len(old)+len(p))
	maps.Copy(out, old)
	for name, value := range p {
		if value == nil {
			delete(out, name)
			continue
		}
		out[name] = apply(out[name], value)
	}
	return out
}
