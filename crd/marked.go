package crd

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/crd/internal/source"
	"github.com/pintle-go/pintle/internal/jsonfields"
	"github.com/pintle-go/pintle/kube"
)

// Beside its own tag a field can have the tags of markers: those of the field, of its type
// and of the types that its type is declared as. This file finds them in the source.

// tags returns the directives of the tags that [Options].Markers gives for markers. It
// calls fail for each wrong marker. The definition is nil if the markers are not those of a
// kind.
func (b *builder) tags(markers []source.Marker, kind *Definition, fail func(source.Marker, error)) (list []directive) {
	if b.markers == nil || len(markers) == 0 {
		return nil
	}
	texts := make([]string, len(markers))
	for i, m := range markers {
		texts[i] = m.Text
	}
	i := 0
	for text, err := range b.markers(texts, kind) {
		m := &markers[i]
		i++
		var found []directive
		if err == nil && text != "" {
			found, err = parseTag(text)
		}
		if err != nil {
			fail(*m, err)
		}
		for _, d := range found {
			d.mark = m
			if o := d.other(list); o != nil {
				fail(*m, fmt.Errorf("it is given twice: %s", o))
			}
			list = append(list, d)
		}
		for _, err := range b.newFaults(kind) {
			fail(*m, err)
		}
	}
	return list
}

// other returns the marker in a list that only one of the two can be true beside: of two
// names for one marker, such as listType and k8s:listType, the values may be the same.
func (d directive) other(list []directive) *source.Marker {
	for _, o := range list {
		same := o.key == d.key && slices.Equal(o.path, d.path) && keys[d.key]&repeatable == 0 && o.mark != d.mark
		if same && (o.mark.Text == d.mark.Text || d.key != "listMapKey" && o.value != d.value) {
			return o.mark
		}
	}
	return nil
}

// newFaults returns the faults of the kind that a marker of it brings, and no earlier one.
func (b *builder) newFaults(kind *Definition) (errs []error) {
	if kind == nil || kind != b.kind || b.schemaOfKind == nil {
		return nil
	}
	for _, err := range kind.faults(b.schemaOfKind) {
		if !b.faults[err.Error()] {
			b.faults[err.Error()] = true
			errs = append(errs, err)
		}
	}
	return errs
}

// faults returns what is wrong with the names and the only version of a draft.
func (d *Definition) faults(root *Schema) []error {
	v := &d.Spec.Versions[0]
	errs := append(d.Spec.Names.faults(), v.columnFaults(root)...)
	if !slices.Contains([]kube.Scope{"", kube.Namespaced, kube.ClusterScoped}, d.Spec.Scope) {
		errs = append(errs, errors.New("want Namespaced or Cluster"))
	}
	for _, f := range v.SelectableFields {
		if _, err := find(root, f.JSONPath); err != nil {
			errs = append(errs, err)
		}
	}
	if v.Subresources != nil && v.Subresources.Scale != nil {
		if _, err := scaleOf(*v.Subresources.Scale, root); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// checkPackages looks at the packages of the types that have been found. It refuses the
// markers that belong to no type or field, and those of the package that are about types or
// fields.
func (b *builder) checkPackages() {
	check := func(m source.Marker, why string, allowed ...string) {
		fail := func(m source.Marker, err error) { b.errs = append(b.errs, fmt.Errorf("%s: %w", m, err)) }
		for _, d := range b.tags([]source.Marker{m}, nil, fail) {
			if !slices.Contains(allowed, d.key) {
				fail(m, errors.New(why))
				return
			}
		}
	}
	b.checkStrangers()
	for _, p := range b.packages {
		for _, m := range p.Markers {
			check(m, "it is for types and fields, not for packages", "optional", "required")
		}
		for _, m := range p.Loose {
			check(m, "it belongs to no type or field: put it directly above one, or above the package, in a line "+
				"that begins with //")
		}
	}
}

// declared checks that the source has a named type once, so that no marker of it is lost
// and none is that of another type.
func (b *builder) declared(t reflect.Type, at place) {
	if t.PkgPath() == "" || isKubernetes(t.PkgPath()) || b.checked[t] {
		return
	}
	b.checked[t] = true
	packages := b.packagesOf(t)
	var places []string
	found := false
	for _, p := range packages {
		found = found || b.source.Has(p.Type(typeName(t)))
		places = append(places, b.source.Places(p.Type(typeName(t)))...)
		if !slices.Contains(b.packages, p) {
			b.packages = append(b.packages, p)
		}
	}
	slices.Sort(places)
	switch ours := len(packages) > 0 || t.PkgPath() == b.kindType.PkgPath(); {
	case len(places) > 1:
		b.fail(at, fmt.Errorf("the source declares %s twice, at %s: leave one out",
			docName(t), strings.Join(places, " and ")))
	case found || b.markers == nil:
	case ours:
		b.fail(at, fmt.Errorf("the source lacks the type %s, so its markers are lost: embed its file in Options.Source",
			docName(t)))
	default:
		b.strangers = append(b.strangers, t)
	}
}

// settle finds the package of the kind in the source. The build knows the import path of a
// program, unless it was built from a list of files.
func (b *builder) settle() {
	pkg, typ, _ := strings.Cut(docName(b.kindType), ".")
	importPath := b.kindType.PkgPath()
	if importPath == "main" {
		importPath = ""
		if info, ok := debug.ReadBuildInfo(); ok && info.Path != "command-line-arguments" {
			importPath = info.Path
		}
	}
	b.source.Settle(b.kindType.PkgPath(), importPath, pkg, typ)
}

// checkStrangers refuses the types that the source has in a package of which it is not known
// whether it is theirs.
func (b *builder) checkStrangers() {
	for _, t := range b.strangers {
		pkg, _, _ := strings.Cut(docName(t), ".")
		for _, p := range b.source.Named(pkg) {
			if b.source.Has(p.Type(typeName(t))) && !slices.Contains(b.packages, p) {
				b.errs = append(b.errs, fmt.Errorf("the source has a type %s in %s, which may be that of %s or another: "+
					"Options.Source must have the package in a directory of that path", docName(t), p.Dir, t.PkgPath()))
			}
		}
	}
}

// packagesOf returns the packages in the source that the package of a type can be. More than
// one is an error.
func (b *builder) packagesOf(t reflect.Type) []*source.Package {
	pkg, _, _ := strings.Cut(t.String(), ".")
	return b.source.At(t.PkgPath(), pkg)
}

// docName returns the name of a type in the source. A type whose package is not in the source
// has its whole path, because another package may have its name.
func (b *builder) docName(t reflect.Type) string {
	if t.Name() != "" && t.PkgPath() != "" {
		for _, p := range b.packagesOf(t) {
			return p.Type(typeName(t))
		}
	}
	pkg, _, _ := strings.Cut(docName(t), ".")
	if b.source.Named(pkg) != nil {
		return t.PkgPath() + "." + t.Name()
	}
	return docName(t)
}

// markedField returns the directives of a field's markers, and those of the alias that
// the field is declared with.
func (b *builder) markedField(at place) (aliased, own []directive) {
	fail := func(m source.Marker, err error) { b.failMark(at, m, err) }
	name := at.typ + "." + at.fields
	return b.aliasTags(name, fail), b.tags(b.source.Markers(name), nil, fail)
}

// aliasTags returns the directives of the alias that a field or type is declared with, as
// directives for the field or type.
func (b *builder) aliasTags(name string, fail func(source.Marker, error)) []directive {
	alias, steps := b.source.Alias(name)
	list := b.tags(b.source.Markers(alias), nil, fail)
	for i := range list {
		list[i].path = slices.Concat(steps, list[i].path)
	}
	return list
}

// markedType applies the markers of a named type to a schema of the type. If the source
// declares it as another type, that type's markers come first, except for those of a
// kind.
func (b *builder) markedType(s *Schema, t reflect.Type, at place) {
	if isKubernetes(t.PkgPath()) {
		return
	}
	at.fields = ""
	for i, name := range slices.Backward(b.source.Names(b.docName(t))) {
		at.typ = name
		fail := func(m source.Marker, err error) { b.failMark(at, m, err) }
		if _, steps := b.source.Alias(name); len(steps) > 0 { // otherwise the alias is one of the names
			a := application{b: b, at: at, schema: s}
			a.apply(b.aliasTags(name, fail))
		}
		kind := draft() // the markers of a kind that the type is declared as have no effect
		switch isPart := len(b.open) > 1 || len(b.open) == 1 && b.open[0] != t; {
		case i == 0 && isPart:
			kind = nil
		case i == 0:
			kind, b.schemaOfKind = b.kind, s
		}
		a := application{b: b, at: at, schema: s}
		a.apply(b.tags(b.source.Markers(name), kind, fail))
	}
}

// typeDirective returns the directive about a type itself with a key, from its markers.
func (b *builder) typeDirective(t reflect.Type, key string) (directive, bool) {
	if t.Name() == "" || isKubernetes(t.PkgPath()) {
		return directive{}, false
	}
	for _, name := range b.source.Names(b.docName(t)) {
		for _, d := range b.tags(b.source.Markers(name), draft(), func(source.Marker, error) {}) {
			if d.key == key && len(d.path) == 0 {
				return d, true
			}
		}
	}
	return directive{}, false
}

// typeMark returns the JSON type that a marker of a type sets, or "".
func (b *builder) typeMark(t reflect.Type) string {
	d, _ := b.typeDirective(t, "type")
	return d.value
}

func (b *builder) hasTypeMark(t reflect.Type, key string) bool {
	_, ok := b.typeDirective(t, key)
	return ok
}

// markedUnused refuses markers of the fields that have no schema of their own: embedded ones,
// and those that are not in the JSON.
func (b *builder) markedUnused(owner reflect.Type, at place) {
	for i := range owner.NumField() {
		f := owner.Field(i)
		why := "the field " + unused(f)
		switch {
		case jsonfields.Embedded(f) != nil:
			why = "the field is embedded: put the marker on its type"
		case unused(f) == "":
			continue
		}
		where := at.field(f.Name)
		_, own := b.markedField(where)
		for _, d := range own {
			if d.key != "optional" && d.key != "required" {
				b.failMark(where, *d.mark, errors.New(why))
			}
		}
	}
}

// optionalByDefault reports whether a marker of the package makes its fields optional.
func (b *builder) optionalByDefault(typ string) bool {
	p := b.source.Package(typ)
	if p == nil {
		return false
	}
	tags := b.tags(p.Markers, nil, func(source.Marker, error) {})
	return slices.ContainsFunc(tags, func(d directive) bool { return d.key == "optional" })
}

// kubernetesName returns the full name of the type of Kubernetes that t is, or that the
// source declares it as. It returns "" for all other types.
func (b *builder) kubernetesName(t reflect.Type) string {
	if isKubernetes(t.PkgPath()) {
		return fullName(t)
	}
	for path, name := range b.source.Foreign(b.docName(t)) {
		if isKubernetes(path) {
			return path + "." + name
		}
	}
	return ""
}
