package source

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// root tells which import path the root of the source has. It is known from a type whose
// path and place are both known.
type root struct {
	path  string   // of the package of the type
	homes []string // the packages that can be it, by their words
	// The directory dir of the source has the import path base. They are empty if the import
	// path is not known.
	base, dir string
}

// Settle finds the package of a type that is in the source, and with it the path of the
// source's root. The import path is empty if it is not known, as that of a program can be,
// whose package has the path main.
func (s *Source) Settle(pkgPath, importPath, pkg, typ string) {
	s.root = root{path: pkgPath}
	best := 0
	for word, p := range s.packages {
		if p.Name != pkg || !s.Has(p.Type(typ)) {
			continue
		}
		switch fit := common(pkgPath, p.Dir); {
		case s.root.homes == nil || fit > best:
			best, s.root.homes = fit, []string{word}
		case fit == best:
			s.root.homes = append(s.root.homes, word)
		}
	}
	if len(s.root.homes) != 1 || importPath == "" {
		return
	}
	dir := s.packages[s.root.homes[0]].place()
	if common(tested(importPath, pkg), dir) > 0 || dir == "." {
		importPath = tested(importPath, pkg)
	}
	for importPath != "." && path.Base(importPath) == path.Base(dir) {
		importPath, dir = path.Dir(importPath), path.Dir(dir)
	}
	s.root.base, s.root.dir = importPath, dir
}

// version is that of a module in the cache of modules.
var version = regexp.MustCompile("@[^/]*")

// place returns the directory without the version of its module.
func (p *Package) place() string { return version.ReplaceAllString(p.Dir, "") }

// tested returns the path of the package that an external test package tests, and that has
// its directory.
func tested(pkgPath, pkg string) string {
	if !strings.HasSuffix(pkg, "_test") {
		return pkgPath
	}
	return strings.TrimSuffix(pkgPath, "_test")
}

// common returns the number of directories at the end of two paths that are the same. It
// is larger if they are the whole second path.
func common(a, b string) int {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for n < len(as) && n < len(bs) && as[len(as)-1-n] == bs[len(bs)-1-n] {
		n++
	}
	if n == len(bs) {
		n += len(as)
	}
	return n
}

// At returns the packages of the source that have an import path and a name. An empty name
// is any. There is more than one if the source does not tell which one it is.
func (s Source) At(pkgPath, name string) (found []*Package) {
	for word, p := range s.packages {
		switch {
		case name != "" && p.Name != name, name == "" && strings.HasSuffix(p.Name, "_test"):
		case pkgPath == s.root.path && s.root.homes != nil:
			if slices.Contains(s.root.homes, word) {
				found = append(found, p)
			}
		case s.has(p, pkgPath):
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *Package) int { return len(b.Dir) - len(a.Dir) })
	// Without a base the longest directory is the best.
	return slices.DeleteFunc(found, func(p *Package) bool { return len(p.Dir) < len(found[0].Dir) })
}

// has reports whether a package has an import path. A package of another module lies in a
// directory that ends with its path, as in vendor.
func (s Source) has(p *Package, pkgPath string) bool {
	dir := p.place()
	own := func(pkgPath string) bool {
		below, inside := strings.CutPrefix(pkgPath+"/", s.root.base+"/")
		switch {
		case s.root.base == "." || inside && s.root.base != "":
			return path.Join(s.root.dir, strings.TrimSuffix(below, "/")) == dir
		case s.root.base == "" && strings.HasSuffix("/"+pkgPath, "/"+dir):
			return true
		}
		return strings.HasSuffix("/"+dir, "/"+pkgPath)
	}
	return own(pkgPath) || own(tested(pkgPath, p.Name))
}

// Named returns the packages with a name.
func (s Source) Named(name string) (found []*Package) {
	for _, p := range s.packages {
		if p.Name == name {
			found = append(found, p)
		}
	}
	return found
}

// Has reports whether the source has a type or field.
func (s Source) Has(name string) bool {
	_, found := s.types[name]
	return found
}

// Lacks reports whether the source declares a struct without a field.
func (s Source) Lacks(typ, field string) bool {
	return s.Has(typ) && s.types[typ].name == "" && !s.Has(typ+"."+field)
}
