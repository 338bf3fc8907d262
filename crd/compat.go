package crd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// IncompatibleError is the error for a definition that stored objects may not fit.
type IncompatibleError struct {
	// Reasons are those of [Compare].
	Reasons []string
	// served is true if the installed definition accepts and keeps every value that this
	// definition accepts and keeps. A program that was made for this definition can then
	// run with the installed one.
	served bool
}

func (e *IncompatibleError) Error() string {
	remedy := "convert them, add a version, or force it"
	if e.served {
		remedy += "; or, if the installed definition is newer and must stay, " +
			"run without installing: the installed definition serves this program too"
	}
	return fmt.Sprintf("the definition does not fit the objects that may be stored (%s): %s",
		remedy, strings.Join(e.Reasons, "; "))
}

// Compare returns the reasons why objects stored under a live definition may not fit the
// next one. No reason means: the next definition accepts every value that the live
// definition accepts, and keeps the whole value.
//
// Compare compares the accepted values, not the words of the schemas. These make no
// difference: a format beside a narrower minimum and maximum, a description, and
// apiVersion, kind and metadata, which every server knows.
//
// Compare cannot compare patterns and CEL rules, so each change of one counts as a
// reason. Rules that use the old object (oldSelf) do not restrict stored objects and do
// not count.
//
// Compare takes each version in status.storedVersions. It compares the version with the
// same version of the next definition. A version that the next definition lacks is a reason: use [Migrate]
// first. Unless a webhook converts objects, it also compares the version with the other versions as which
// the objects can be read. The functions of [Converts] lose no field, because what a version lacks is kept. A
// mismatch that two live versions already have is not counted against the next
// definition, if objects lose no more by it than they may lose now. The error of a
// definition ([Definition.Err]) is a reason too.
func Compare(live, next *Definition) []string {
	if err := cmp.Or(live.err, next.err); err != nil {
		return []string{err.Error()}
	}
	var breaks []string
	if live.Spec.Scope != next.Spec.Scope {
		breaks = append(breaks, fmt.Sprintf("the scope changes from %s to %s", live.Spec.Scope, next.Spec.Scope))
	}
	for _, name := range live.storedVersions() {
		if next.Version(name) == nil {
			breaks = append(breaks, name+": the version is removed, and objects may be stored in it: migrate them first")
		}
		stored := live.Version(name)
		if stored == nil {
			continue // the schema of this version is unknown
		}
		for _, v := range next.Spec.Versions {
			if name != v.Name && (next.converts() || !v.Served && !v.Storage) {
				continue
			}
			was := already(live, next, stored, &v)
			for _, b := range compareVersions(stored, &v) {
				if !slices.Contains(was, b) {
					breaks = append(breaks, b)
				}
			}
		}
	}
	return breaks
}

// storedVersions returns the versions in which objects may be stored.
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

// converts reports whether a webhook converts objects between versions.
func (d *Definition) converts() bool {
	return d.Spec.Conversion != nil && d.Spec.Conversion.Strategy == "Webhook"
}

// already returns the reasons why objects of a stored version do not fit another version of the next
// definition that hold as well for the live definition: objects lose no more by the next one. They do
// lose more if a webhook converts them now, if the other version could not be used or is the one that
// objects are stored in from now on, or if nobody can read them as the stored version any more.
func already(live, next *Definition, stored, as *Version) []string {
	was, kept := live.Version(as.Name), next.Version(stored.Name)
	if was == nil || live.converts() || !was.Served && !was.Storage || as.Storage && !was.Storage ||
		stored.Served && (kept == nil || !kept.Served) {
		return nil
	}
	return compareVersions(stored, was)
}

// compareVersions returns the reasons why objects of one version may not fit another.
func compareVersions(stored, as *Version) []string {
	c := comparer{versions: stored.Name}
	if as.Name != stored.Name {
		c.versions += " as " + as.Name
	}
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
