package main

import (
	"cmp"
	"context"
	"fmt"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// checkAPI compares the exported API of each module with its golden file, and the users of
// the API with theirs.
func checkAPI(ctx context.Context, repo *Repo, args []string) error {
	write, err := writeFlag("api", args)
	if err != nil {
		return err
	}
	var failed error
	for _, m := range repo.Modules {
		lines, err := moduleAPI(ctx, repo, m)
		if err != nil {
			return fmt.Errorf("read API of %s: %w", m.Path, err)
		}
		if err := golden(filepath.Join(repo.Dir, "api", m.Name()+".txt"), lines, write); err != nil {
			fmt.Println(err)
			failed = cmp.Or(failed, errStale)
		}
	}
	if err := checkUsers(ctx, repo, write); err != nil {
		fmt.Println(err)
		failed = cmp.Or(failed, err)
	}
	return failed
}

// moduleAPI describes the exported API of a module, one line for each fact.
func moduleAPI(ctx context.Context, repo *Repo, m Module) ([]string, error) {
	config := &packages.Config{Context: ctx, Dir: m.Dir, Env: repo.goldenEnv(), Mode: packages.NeedName}
	named, err := packages.Load(config, "./...")
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	var importable []string
	for _, p := range named {
		if p.Name != "main" && !slices.Contains(strings.Split(p.PkgPath, "/"), "internal") {
			importable = append(importable, p.PkgPath)
		}
	}
	if len(importable) == 0 {
		return []string{"# " + m.Path + " has no package to import."}, nil
	}
	// Types come from compiled export data. So the packages below, including all of
	// Kubernetes, are not checked from source again.
	config.Mode = packages.NeedName | packages.NeedImports | packages.NeedTypes
	loaded, err := packages.Load(config, importable...)
	if err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	var lines []string
	for _, p := range loaded {
		for _, e := range p.Errors {
			return nil, fmt.Errorf("load package %s: %w", p.PkgPath, e)
		}
		lines = append(lines, packageAPI(p.Types)...)
	}
	return lines, nil
}

// packageAPI describes the exported API of a package.
func packageAPI(p *types.Package) []string {
	d := describer{pkg: p}
	scope := p.Scope()
	for _, name := range scope.Names() {
		if obj := scope.Lookup(name); obj.Exported() {
			d.object(obj)
		}
	}
	if len(d.lines) == 0 {
		d.linef("exports nothing")
	}
	return d.lines
}

// A describer collects the lines for one package.
type describer struct {
	pkg   *types.Package
	lines []string
}

func (d *describer) linef(format string, args ...any) {
	name := strings.TrimPrefix(strings.TrimPrefix(d.pkg.Path(), prefix), "/")
	if name == "" {
		name = d.pkg.Name()
	}
	d.lines = append(d.lines, "pkg "+name+", "+fmt.Sprintf(format, args...))
}

// qualify names other packages by their path, because "v1" alone is ambiguous.
func (d *describer) qualify(p *types.Package) string {
	if p == d.pkg {
		return ""
	}
	return strings.TrimPrefix(p.Path(), prefix+"/")
}

func (d *describer) typ(t types.Type) string { return types.TypeString(t, d.qualify) }

func (d *describer) object(obj types.Object) {
	switch obj := obj.(type) {
	case *types.Const:
		d.linef("const %s %s = %s", obj.Name(), d.typ(obj.Type()), obj.Val().ExactString())
	case *types.Var:
		d.linef("var %s %s", obj.Name(), d.typ(obj.Type()))
	case *types.Func:
		d.linef("func %s%s", obj.Name(), d.signature(obj.Signature()))
	case *types.TypeName:
		d.typeName(obj)
	}
}

func (d *describer) typeName(obj *types.TypeName) {
	if alias, ok := obj.Type().(*types.Alias); ok {
		d.linef("type %s%s = %s", obj.Name(), d.typeParams(alias.TypeParams()), d.typ(alias.Rhs()))
		return
	}
	named, ok := obj.Type().(*types.Named)
	if !ok {
		return
	}
	name := obj.Name() + d.typeParams(named.TypeParams())
	switch under := named.Underlying().(type) {
	case *types.Struct:
		d.linef("type %s struct", name)
		d.fields(obj.Name(), under)
	case *types.Interface:
		d.interfaceType(name, under)
	default:
		d.linef("type %s %s", name, d.typ(under))
	}
	d.methods(named)
}

// fields describes a struct's exported fields, and those that an unexported embedded type
// promotes. Tags count, because they define the wire format.
func (d *describer) fields(owner string, s *types.Struct) {
	for i := range s.NumFields() {
		f := s.Field(i)
		tag := ""
		if s.Tag(i) != "" {
			tag = " `" + s.Tag(i) + "`"
		}
		switch {
		case f.Embedded() && f.Exported():
			d.linef("type %s struct, embedded %s%s", owner, d.typ(f.Type()), tag)
		case f.Embedded():
			if under, ok := deref(f.Type()).Underlying().(*types.Struct); ok {
				d.fields(owner, under)
			}
		case f.Exported():
			d.linef("type %s struct, %s %s%s", owner, f.Name(), d.typ(f.Type()), tag)
		}
	}
}

func (d *describer) interfaceType(name string, t *types.Interface) {
	var parts []string
	for m := range t.Methods() {
		if !m.Exported() {
			parts = append(parts, "unexported methods")
			continue
		}
		parts = append(parts, m.Name())
		d.linef("type %s interface, %s%s", strings.SplitN(name, "[", 2)[0], m.Name(), d.signature(m.Signature()))
	}
	for e := range t.EmbeddedTypes() {
		if _, ok := e.Underlying().(*types.Interface); !ok { // an interface with a type set, not with methods
			parts = append(parts, d.typ(e))
		}
	}
	slices.Sort(parts)
	d.linef("type %s interface { %s }", name, strings.Join(slices.Compact(parts), ", "))
}

// methods describes the exported methods that the type declares, and those that an
// unexported embedded type promotes. The methods that exported embedded types promote
// follow from the line of the embedded field.
func (d *describer) methods(named *types.Named) {
	if types.IsInterface(named) {
		return
	}
	set := types.NewMethodSet(types.NewPointer(named))
	values := types.NewMethodSet(named)
	for sel := range set.Methods() {
		m, ok := sel.Obj().(*types.Func)
		if !ok || !m.Exported() || !declaredOrHidden(named, sel.Index()) {
			continue
		}
		star := "*"
		if values.Lookup(m.Pkg(), m.Name()) != nil {
			star = ""
		}
		var params []string
		for p := range named.TypeParams().TypeParams() {
			params = append(params, p.Obj().Name())
		}
		receiver := named.Obj().Name()
		if params != nil {
			receiver += "[" + strings.Join(params, ", ") + "]"
		}
		d.linef("method (%s%s) %s%s", star, receiver, m.Name(), d.signature(sel.Type().(*types.Signature)))
	}
}

// declaredOrHidden reports whether a method, reached by a path of field indices, is the
// type's own or is promoted by an unexported field.
func declaredOrHidden(t types.Type, path []int) bool {
	for _, i := range path[:len(path)-1] {
		s, ok := deref(t).Underlying().(*types.Struct)
		if !ok {
			return false
		}
		if s.Field(i).Exported() {
			return false
		}
		t = s.Field(i).Type()
	}
	return true
}

// signature leaves out the names of parameters, because a new name breaks no caller.
func (d *describer) signature(sig *types.Signature) string {
	var b strings.Builder
	b.WriteString(d.typeParams(sig.TypeParams()))
	b.WriteString("(" + d.tuple(sig.Params(), sig.Variadic()) + ")")
	switch results := d.tuple(sig.Results(), false); sig.Results().Len() {
	case 0:
	case 1:
		b.WriteString(" " + results)
	default:
		b.WriteString(" (" + results + ")")
	}
	return b.String()
}

func (d *describer) tuple(t *types.Tuple, variadic bool) string {
	var parts []string
	for v := range t.Variables() {
		parts = append(parts, d.typ(v.Type()))
	}
	if variadic {
		last := t.At(t.Len() - 1).Type()
		if s, ok := last.(*types.Slice); ok {
			parts[len(parts)-1] = "..." + d.typ(s.Elem())
		}
	}
	return strings.Join(parts, ", ")
}

func (d *describer) typeParams(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var parts []string
	for p := range list.TypeParams() {
		parts = append(parts, p.Obj().Name()+" "+d.typ(p.Constraint()))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func deref(t types.Type) types.Type {
	if p, ok := t.(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}
