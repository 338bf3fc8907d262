package main

import (
	"go/token"
	"go/types"
	"reflect"
	"strings"
)

// A contract is an interface that a type may satisfy.
type contract struct {
	name   string
	t      *types.Interface
	symbol *symbol // of an interface of this repository
}

// useByTypes adds the users that follow from types: interfaces that methods satisfy, and
// symbols whose types name a type. It goes over them until nothing changes, because a symbol
// without a user is no user.
func useByTypes(w *workspace, all []*symbol, symbols map[place][]*symbol) {
	contracts := append(foreignContracts(w), wrapperContracts()...)
	for _, s := range all {
		if t, ok := s.obj.(*types.TypeName); ok {
			if i, ok := t.Type().Underlying().(*types.Interface); ok {
				contracts = append(contracts, contract{s.name, i, s})
			}
		}
	}
	for changed := true; changed; {
		changed = false
		use := func(s *symbol, u user) {
			before := s.user
			s.usedBy(u)
			changed = changed || s.user != before
		}
		for _, s := range all {
			m, ok := s.obj.(*types.Func)
			if !ok || s.owner == nil {
				continue
			}
			for _, c := range contracts {
				if (c.symbol == nil || c.symbol.user.name != "") && c.has(m) && c.satisfiedBy(s.owner) {
					use(s, user{byInterface, "interface " + c.name})
				}
			}
		}
		for _, s := range all {
			if s.user.name == "" {
				continue
			}
			eachTypeName(s.obj, func(t *types.TypeName) {
				for _, named := range symbols[w.place(t.Pos())] {
					if named != s {
						use(named, user{bySignature, "type in " + s.name})
					}
				}
			})
		}
	}
}

func (c contract) has(m *types.Func) bool {
	for i := range c.t.Methods() {
		if i.Name() == m.Name() {
			return true
		}
	}
	return false
}

// satisfiedBy reports whether a pointer to t has the methods. t may be generic, with its own
// parameters as arguments.
func (c contract) satisfiedBy(t *types.Named) bool {
	set := types.NewMethodSet(types.NewPointer(t))
	for i := range c.t.Methods() {
		m := set.Lookup(i.Pkg(), i.Name())
		if m == nil || !types.Identical(m.Type(), i.Type()) {
			return false
		}
	}
	return true
}

// foreignContracts lists error, and the exported interfaces of those packages of the standard
// library and of apimachinery that our packages import.
func foreignContracts(w *workspace) []contract {
	all := []contract{{"error", types.Universe.Lookup("error").Type().Underlying().(*types.Interface), nil}}
	seen := make(map[*types.Package]bool)
	for _, p := range w.packages {
		if !importable(p) {
			continue
		}
		for _, q := range p.Types.Imports() {
			first, _, _ := strings.Cut(q.Path(), "/")
			known := !strings.Contains(first, ".") || strings.HasPrefix(q.Path(), "k8s.io/apimachinery/")
			if !known || seen[q] {
				continue
			}
			seen[q] = true
			for _, name := range q.Scope().Names() {
				t, ok := q.Scope().Lookup(name).(*types.TypeName)
				if !ok || !t.Exported() {
					continue
				}
				if i, ok := t.Type().Underlying().(*types.Interface); ok && i.IsMethodSet() && !i.Empty() {
					all = append(all, contract{q.Path() + "." + name, i, nil})
				}
			}
		}
	}
	return all
}

// wrapperContracts lists the methods that package errors calls and for which it has no
// exported interface.
func wrapperContracts() []contract {
	failure := types.Universe.Lookup("error").Type()
	truth := types.Typ[types.Bool]
	single := func(name string, in, out types.Type) contract {
		var params []*types.Var
		if in != nil {
			params = append(params, types.NewParam(token.NoPos, nil, "", in))
		}
		results := types.NewTuple(types.NewParam(token.NoPos, nil, "", out))
		sig := types.NewSignatureType(nil, nil, nil, types.NewTuple(params...), results, false)
		i := types.NewInterfaceType([]*types.Func{types.NewFunc(token.NoPos, nil, name, sig)}, nil).Complete()
		return contract{"errors." + name, i, nil}
	}
	return []contract{
		single("Unwrap", nil, failure),
		single("Unwrap", nil, types.NewSlice(failure)),
		single("Is", failure, truth),
		single("As", types.NewInterfaceType(nil, nil), truth),
	}
}

// eachTypeName calls visit for the types that a caller of the symbol handles: those in the
// type of a constant, variable, field or function, and those in the definition of a type.
// Of a struct these are the types of embedded fields and of fields with a json tag. The
// other fields are symbols themselves.
func eachTypeName(obj types.Object, visit func(*types.TypeName)) {
	n := typeNames{visit: visit, seen: make(map[types.Type]bool)}
	t, ok := obj.(*types.TypeName)
	if !ok {
		n.in(obj.Type())
		return
	}
	if alias, ok := t.Type().(*types.Alias); ok {
		n.in(alias.Rhs())
		return
	}
	switch under := t.Type().Underlying().(type) {
	case *types.Struct:
		for i := range under.NumFields() {
			f := under.Field(i)
			_, wire := reflect.StructTag(under.Tag(i)).Lookup("json")
			if f.Exported() && (f.Embedded() || wire) {
				n.in(f.Type())
			}
		}
	default:
		n.in(under)
	}
	if named, ok := t.Type().(*types.Named); ok {
		n.params(named.TypeParams())
	}
}

type typeNames struct {
	visit func(*types.TypeName)
	seen  map[types.Type]bool
}

func (n typeNames) in(t types.Type) {
	if n.seen[t] {
		return
	}
	n.seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		n.visit(t.Obj())
		n.list(t.TypeArgs())
	case *types.Alias:
		n.visit(t.Obj())
		n.list(t.TypeArgs())
	case *types.TypeParam:
		n.in(t.Constraint())
	case *types.Pointer:
		n.in(t.Elem())
	case *types.Slice:
		n.in(t.Elem())
	case *types.Array:
		n.in(t.Elem())
	case *types.Chan:
		n.in(t.Elem())
	case *types.Map:
		n.in(t.Key())
		n.in(t.Elem())
	case *types.Signature:
		n.params(t.TypeParams())
		n.tuple(t.Params())
		n.tuple(t.Results())
	case *types.Struct:
		for f := range t.Fields() {
			n.in(f.Type())
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			n.in(m.Type())
		}
		for e := range t.EmbeddedTypes() {
			n.in(e)
		}
	case *types.Union:
		for term := range t.Terms() {
			n.in(term.Type())
		}
	}
}

func (n typeNames) list(l *types.TypeList) {
	for t := range l.Types() {
		n.in(t)
	}
}

func (n typeNames) params(l *types.TypeParamList) {
	for t := range l.TypeParams() {
		n.in(t)
	}
}

func (n typeNames) tuple(t *types.Tuple) {
	for v := range t.Variables() {
		n.in(v.Type())
	}
}
