package crd

import (
	"fmt"
	"slices"
	"strings"
)

// Break is a reason why objects that are stored in a cluster may not fit a
// definition: why they may be refused, or lose something.
type Break struct {
	// Version is the one the objects are stored in. It is empty for what
	// concerns them all.
	Version string
	// As is the version that they are read and written as.
	As string
	// Path leads to the field, as in .spec.ports[].name.
	Path string
	Why  string
}

func (b Break) String() string {
	s := b.Why
	if b.Path != "" {
		s = b.Path + ": " + s
	}
	switch {
	case b.Version == "":
		return s
	case b.As == "" || b.As == b.Version:
		return b.Version + ": " + s
	}
	return b.Version + " as " + b.As + ": " + s
}

// IncompatibleError says that objects in the cluster may not fit a definition.
type IncompatibleError struct {
	// Name is the definition's.
	Name   string
	Breaks []Break
	// Served is true if what is installed takes in and keeps whatever the
	// definition does: a program that was made for the definition can run with what
	// is there.
	Served bool
}

func (e *IncompatibleError) Error() string {
	reasons := make([]string, len(e.Breaks))
	for i, b := range e.Breaks {
		reasons[i] = b.String()
	}
	remedy := "convert them, add a version, or force it"
	if e.Served {
		remedy += "; or, if what is installed is newer and to stay, run without installing: it serves this program too"
	}
	return fmt.Sprintf("the definition does not fit the objects that may be stored (%s): %s", remedy, strings.Join(reasons, "; "))
}

// Compare returns the reasons why objects stored under a live definition may
// not fit the next one. None means: whatever the live definition lets in, the
// next lets in as well, and keeps whole.
//
// Compared are the values that are let in, not the words of the schemas: a format
// beside a narrower minimum and maximum, a description, or apiVersion, kind and
// metadata, which every server knows, make no difference.
//
// Where it cannot be known, as for patterns and for rules in CEL, a change
// counts as a reason. Rules that compare with the object before (oldSelf) say
// nothing about objects that are stored, and do not count.
//
// Compared are the versions of status.storedVersions, each with the same version
// of the next definition and, unless a webhook converts them, with the other
// versions as which they can be read. What was wrong between two versions before
// is not held against the next definition.
func Compare(live, next *Definition) []Break {
	var breaks []Break
	if live.Spec.Scope != next.Spec.Scope {
		breaks = append(breaks, Break{Why: fmt.Sprintf("the scope changes from %s to %s", live.Spec.Scope, next.Spec.Scope)})
	}
	for _, name := range live.storedVersions() {
		if next.Version(name) == nil {
			breaks = append(breaks, Break{Version: name, Why: "the version is removed, and objects may be stored in it"})
		}
		stored := live.Version(name)
		if stored == nil {
			continue // its schema is not known any more
		}
		for _, v := range next.Spec.Versions {
			if name != v.Name && (next.converts() || !v.Served && !v.Storage) {
				continue
			}
			was := already(stored, live.Version(v.Name))
			for _, b := range compareVersions(stored, &v) {
				if !slices.Contains(was, b) {
					breaks = append(breaks, b)
				}
			}
		}
	}
	return breaks
}

// storedVersions are the versions that objects may be stored in.
func (d *Definition) storedVersions() []string {
	if len(d.Status.StoredVersions) > 0 {
		return d.Status.StoredVersions
	}
	var names []string
	for _, v := range d.Spec.Versions {
		if v.Storage {
			names = append(names, v.Name)
		}
	}
	return names
}

// converts reports whether a webhook converts between versions.
func (d *Definition) converts() bool {
	return d.Spec.Conversion != nil && d.Spec.Conversion.Strategy == "Webhook"
}

// already returns what was wrong between two live versions, if there are two.
func already(stored, as *Version) []Break {
	if as == nil {
		return nil
	}
	return compareVersions(stored, as)
}

// compareVersions returns why objects of one version may not fit another.
func compareVersions(stored, as *Version) []Break {
	c := comparer{stored: stored.Name, as: as.Name}
	was, is := stored.Schema.OpenAPIV3Schema, as.Schema.OpenAPIV3Schema
	if was == nil {
		was = anyValue()
	}
	if is == nil {
		is = anyValue()
	}
	c.compare(was, is, "", false)
	return c.breaks
}
