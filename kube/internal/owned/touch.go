package owned

import "strings"

// Touch reports that the set has a field at a path, or a field inside it. A path is
// written as in spec.replicas, metadata.labels[app] or spec.containers[0].image. The set
// names the items of lists by keys or values, so a place in a list stands for any item.
func (f *Fields) Touch(path string) bool { return touch(f.root, elementsOf(path)) }

// elementsOf splits a path. Brackets hold a member or a place in a list.
func elementsOf(path string) (elements []string) {
	for path != "" {
		end := strings.IndexAny(path, ".[")
		if path[0] == '[' {
			if end = strings.IndexByte(path, ']'); end < 0 {
				end = len(path)
			}
			elements = append(elements, path[1:end])
			path = strings.TrimPrefix(path[min(end+1, len(path)):], ".")
			continue
		}
		if end < 0 {
			end = len(path)
		}
		elements = append(elements, path[:end])
		path = strings.TrimPrefix(path[end:], ".")
	}
	return elements
}

func touch(set []element, path []string) bool {
	if len(path) == 0 || len(set) == 0 {
		return true
	}
	for i := range set {
		e := &set[i]
		switch e.kind {
		case itself:
		case byName:
			if e.name == path[0] && touch(e.within, path[1:]) {
				return true
			}
		default:
			if touch(e.within, path[1:]) {
				return true
			}
		}
	}
	return false
}
