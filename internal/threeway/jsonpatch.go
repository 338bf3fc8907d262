package threeway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrFixed is wrapped if the change is to a member that must stay.
var ErrFixed = errors.New("it cannot be changed here")

// JSONPatch returns the JSON patch (RFC 6902) that makes the change from before to after on raw,
// as [Patch] does with a merge patch. It can also store null. It returns nil if nothing changed.
// A change of one of the fixed members, which are given by their JSON pointers, is [ErrFixed].
//
// The patch has only the operations add, replace and remove. Before it is returned, it is applied
// to raw, and the outcome is compared with the change.
//
// Source: https://www.rfc-editor.org/rfc/rfc6902.
func JSONPatch(raw, before, after []byte, project Project, fixed ...string) ([]byte, error) {
	c := change{project: project, express: asJSONPatch}
	if changed, err := c.parse(raw, before, after); err != nil || !changed {
		return nil, err
	}
	// As in the items of a list, every null can be stored.
	patch, outcome, err := c.search(&merger{whole: map[string]bool{}, inList: 1})
	if err != nil || patch == nil {
		return nil, err
	}
	for _, at := range fixed {
		if !equal(lookup(c.raw, at), lookup(outcome, at)) {
			return nil, fmt.Errorf("change %s: %w", at, ErrFixed)
		}
	}
	text, err := encode(patch)
	if err != nil {
		return nil, err
	}
	switch is, err := applyOperations(c.raw, text); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInexpressible, err)
	case !equal(is, outcome):
		at, _ := firstDifference("", is, outcome)
		return nil, fmt.Errorf("%w: %s would differ from the change", ErrInexpressible, place(at))
	}
	return text, nil
}

// asJSONPatch expresses a change as a JSON patch.
func asJSONPatch(raw, next any) (patch, outcome any) {
	ops := operations(nil, "", raw, next)
	if len(ops) == 0 {
		return nil, next
	}
	return ops, next
}

// operations appends the operations that make to of from. A member that is null counts as missing:
// some servers know no operation on it but add.
func operations(ops []any, at string, from, to any) []any {
	if equal(from, to) {
		return ops
	}
	switch t := to.(type) {
	case missing:
		return append(ops, map[string]any{"op": "remove", "path": at})
	case map[string]any:
		f, ok := from.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(f)) {
			if _, ok := t[name]; !ok {
				ops = operations(ops, join(at, name), f[name], absent)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(t)) {
			ops = operations(ops, join(at, name), member(f, name), t[name])
		}
		return ops
	case []any:
		f, ok := from.([]any)
		if !ok || len(f) != len(t) || slices.Contains(f, nil) {
			break
		}
		for i := range t {
			ops = operations(ops, item(at, i), f[i], t[i])
		}
		return ops
	}
	op := "replace"
	if isNothing(from) {
		op = "add"
	}
	return append(ops, map[string]any{"op": op, "path": at, "value": to})
}

// ApplyJSONPatch applies a patch that [JSONPatch] has made.
func ApplyJSONPatch(raw, patch []byte) ([]byte, error) {
	v, err := parse(raw)
	if err == nil {
		v, err = applyOperations(v, patch)
	}
	if err != nil {
		return nil, fmt.Errorf("apply patch: %w", err)
	}
	return encode(v)
}

// applyOperations applies an encoded patch to a value. It does not change the value.
func applyOperations(v any, patch []byte) (any, error) {
	parsed, err := parse(patch)
	if err != nil {
		return nil, err
	}
	ops, _ := parsed.([]any)
	for _, each := range ops {
		op, _ := each.(map[string]any)
		at, _ := op["path"].(string)
		what, _ := op["op"].(string)
		if v, err = operate(v, strings.Split(at, "/")[1:], what, member(op, "value")); err != nil {
			return nil, fmt.Errorf("%s %s: %w", what, place(at), err)
		}
	}
	return v, nil
}

var errPath = errors.New("there is no such path")

// operate returns v with one operation done at a path.
func operate(v any, path []string, op string, value any) (any, error) {
	if len(path) == 0 {
		return nil, errPath
	}
	name, last := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0]), len(path) == 1
	switch v := v.(type) {
	case map[string]any:
		old, ok := v[name]
		if !ok && (!last || op != "add") {
			return nil, errPath
		}
		out := maps.Clone(v)
		switch {
		case !last:
			next, err := operate(old, path[1:], op, value)
			out[name] = next
			return out, err
		case op == "remove":
			delete(out, name)
		default:
			out[name] = value
		}
		return out, nil
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(v) || last && op != "replace" {
			return nil, errPath
		}
		out := slices.Clone(v)
		if out[i] = value; !last {
			out[i], err = operate(v[i], path[1:], op, value)
		}
		return out, err
	}
	return nil, errPath
}

// Same reports whether two objects are the same, apart from some members at the top, which are given by
// their JSON pointers.
func Same(a, b []byte, apart ...string) (bool, error) {
	x, err := parse(a)
	if err != nil {
		return false, err
	}
	y, err := parse(b)
	if err != nil {
		return false, err
	}
	for _, v := range []any{x, y} {
		object, ok := v.(map[string]any)
		if !ok {
			return false, errors.New("not a JSON object")
		}
		for _, at := range apart {
			delete(object, strings.TrimPrefix(at, "/"))
		}
	}
	return equal(x, y), nil
}
