package kube

import "slices"

// Covers returns what a handle is for: its kind, as far as that is known without
// asking the server, and the namespaces that In has narrowed it to, none for all.
// The error is a mistake in making the handle.
func Covers(s Source) (kind Kind, namespaces []string, err error) {
	h := s.base()
	if h.err == nil && h.codec == nil {
		h.err = errNoHandle
	}
	if h.err != nil {
		return h.kind, nil, &Error{Verb: "use", Kind: h.kindName(), Err: h.err}
	}
	return h.kind, slices.Clone(h.namespaces), nil
}
