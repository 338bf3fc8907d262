package crd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/crd/internal/source"
	"github.com/pintle-go/pintle/internal/plural"
	"github.com/pintle-go/pintle/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options describe a kind beyond its Go type. The zero value is right for most kinds. The
// counterparts are controller-tools' markers of the kind, such as +kubebuilder:resource,
// and kube-rs's attribute kube(…).
type Options struct {
	// Kind is the declaration that kube.For gets as well, if there is one. Its Plural
	// names the resource: by default it is the plural of the kind in English (echoes,
	// gateways, policies). Its Scope is namespaced by default.
	Kind kube.Kind
	// Singular is by default the kind in lower case.
	Singular string
	// ShortNames are abbreviations for users of kubectl.
	ShortNames []string
	// Categories are groups of resources that kubectl lists together, such as
	// "all".
	Categories []string

	// Scale adds the scale subresource. The default paths are .spec.replicas and
	// .status.replicas.
	Scale *Scale
	// Columns follow the columns of the tags. If there are columns, a column Age comes
	// last, unless a column has that name.
	Columns []Column

	// Source is the Go source of the type's package. Its comments become descriptions:
	//
	//	//go:embed types.go
	//	var source embed.FS
	//
	// With Markers it must have the files of all types of its packages. Their directories must
	// lie in it as in the module; a package of another module lies in a directory that ends
	// with its import path, as in vendor.
	Source fs.FS
	// Markers turns the markers in the comments of Source into tags, such as kubebuilder.Tags
	// does for those of controller-gen. Without it they have no effect. It gets the markers
	// of a field, type or package without their plus signs, and yields a tag or an error for
	// each. If they are those of the kind's type, it can also change the names, the scope,
	// the labels and the only version of the definition, and the other options override
	// that. Otherwise the definition is nil or has no effect.
	Markers func(markers []string, kind *Definition) iter.Seq2[string, error]

	// NotServed keeps a version in the definition that the server does not serve. Objects
	// may be stored in it.
	NotServed bool
	// Deprecated is the warning for clients of this version.
	Deprecated string
}

// embedsKubeObject turns a struct without TypeMeta and ObjectMeta into a compile error.
type embedsKubeObject[T any] interface {
	*T
	metav1.Object
	GetObjectKind() schema.ObjectKind
}

// Of returns the definition of T's kind with the version that T describes. A program can
// declare it as a variable of a package:
//
//	var definition = crd.Of[Echo](crd.Options{ShortNames: []string{"echo"}})
//
// The definition keeps the error of a wrong type, tag or option, which names every wrong
// field. Every use of the definition returns the error: see [Definition.Err]. The
// counterparts of Of are controller-tools' controller-gen crd and kube-rs's
// CustomResourceExt::crd.
func Of[T any, P embedsKubeObject[T]](o Options) *Definition {
	t := reflect.TypeFor[T]()
	d, err := of(t, kube.KindOf[T, P](o.Kind), o)
	if err != nil {
		return &Definition{err: fmt.Errorf("define the kind of %s: %w", t, err)}
	}
	d.goType = t
	return d
}

func of(t reflect.Type, kind kube.Kind, o Options) (*Definition, error) {
	if err := kind.Err(); err != nil {
		return nil, err
	}
	from, err := source.Read(o.Source)
	if err != nil {
		return nil, err
	}
	d := draft()
	b := builder{source: from, markers: o.Markers, kind: d}
	root, err := b.build(t)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.setNames(kind, o), d.setVersion(kind, o, &b, root)); err != nil {
		return nil, err
	}
	d.SetGroupVersionKind(d.GVK())
	d.Name = d.Spec.Names.Plural + "." + kind.Group
	return d, nil
}

// setNames sets and checks the names of a kind and its scope. A marker that contradicts the
// kind is an error, because clients use the kind.
func (d *Definition) setNames(kind kube.Kind, o Options) error {
	switch n := d.Spec.Names; {
	case n.Plural != "" && kind.Plural != "" && n.Plural != kind.Plural:
		return fmt.Errorf("a marker says plural %s, the kind %s", n.Plural, kind.Plural)
	case d.Spec.Scope != "" && kind.Scope != "" && d.Spec.Scope != kind.Scope:
		return fmt.Errorf("a marker says scope %s, the kind %s", d.Spec.Scope, kind.Scope)
	}
	d.Spec.Group, d.Spec.Scope = kind.Group, cmp.Or(kind.Scope, d.Spec.Scope, kube.Namespaced)
	lower := strings.ToLower(kind.Kind)
	n := &d.Spec.Names
	n.Kind, n.ListKind = kind.Kind, kind.Kind+"List"
	n.Plural = cmp.Or(kind.Plural, n.Plural, plural.Of(kind.Kind))
	n.Singular = cmp.Or(o.Singular, n.Singular, lower)
	if len(o.ShortNames) > 0 {
		n.ShortNames = o.ShortNames
	}
	if len(o.Categories) > 0 {
		n.Categories = o.Categories
	}
	errs := n.faults()
	check := func(what, name string, problems []string) { errs = append(errs, faultsOf(what, name, problems)...) }
	if !strings.Contains(kind.Group, ".") {
		errs = append(errs, fmt.Errorf("group %q: it must be a domain of yours, with a dot, as in example.com",
			kind.Group))
	}
	check("group", kind.Group, validation.IsDNS1123Subdomain(kind.Group))
	check("version", kind.Version, validation.IsDNS1035Label(kind.Version))
	check("kind", kind.Kind, validation.IsDNS1035Label(lower))
	check("list kind", n.ListKind, validation.IsDNS1035Label(strings.ToLower(n.ListKind)))
	return errors.Join(errs...)
}

// faults returns what is wrong with the names that a marker or an option can set.
func (n *Names) faults() (errs []error) {
	check := func(what string, names ...string) {
		for _, name := range names {
			errs = append(errs, faultsOf(what, name, validation.IsDNS1035Label(name))...)
		}
	}
	if n.Plural != "" {
		check("plural", n.Plural)
	}
	if n.Singular != "" {
		check("singular", n.Singular)
	}
	check("short name", n.ShortNames...)
	check("category", n.Categories...)
	return errs
}

func faultsOf(what, name string, problems []string) (errs []error) {
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("%s %q: %s", what, name, p))
	}
	return errs
}

// setVersion completes the version that a type describes. Tags and options override markers.
func (d *Definition) setVersion(kind kube.Kind, o Options, b *builder, root *Schema) error {
	v := &d.Spec.Versions[0]
	d.stored = v.Storage
	v.Name, v.Storage, v.Served = kind.Version, true, v.Served && !o.NotServed
	v.Schema = Validation{root}
	if b.deprecated != nil || o.Deprecated != "" {
		v.Deprecated, v.DeprecationWarning = true, o.Deprecated
	}
	if b.deprecated != nil && o.Deprecated == "" {
		v.DeprecationWarning = *b.deprecated
	}
	v.SelectableFields = append(b.selectable, v.SelectableFields...)
	v.Columns = slices.Concat(b.columns, v.Columns, o.Columns)
	var sub Subresources
	if _, has := root.Properties["status"]; has {
		sub.Status = new(struct{})
	}
	scale := o.Scale
	if scale == nil && v.Subresources != nil {
		scale = v.Subresources.Scale
	}
	if scale != nil {
		var err error
		if sub.Scale, err = scaleOf(*scale, root); err != nil {
			return fmt.Errorf("scale: %w", err)
		}
	}
	if v.Subresources = nil; sub != (Subresources{}) {
		v.Subresources = &sub
	}
	return checkColumns(v)
}

// scaleOf fills in the default paths and checks the types of the fields at the paths.
func scaleOf(s Scale, root *Schema) (*Scale, error) {
	if s.SpecReplicasPath == "" {
		s.SpecReplicasPath = ".spec.replicas"
	}
	if s.StatusReplicasPath == "" {
		s.StatusReplicasPath = ".status.replicas"
	}
	check := func(path, within, want string) error {
		if path == "" {
			return nil
		}
		if !strings.HasPrefix(path, within) {
			return fmt.Errorf("%s is not below %s", path, strings.TrimSuffix(within, "."))
		}
		found, err := find(root, path)
		if err == nil && found.Type != want {
			err = fmt.Errorf("%s is of type %s: want %s", path, found.typeText(), want)
		}
		return err
	}
	return &s, errors.Join(
		check(s.SpecReplicasPath, ".spec.", "integer"),
		check(s.StatusReplicasPath, ".status.", "integer"),
		check(s.LabelSelectorPath, ".status.", "string"),
	)
}

// Join returns one definition with the versions of several definitions. Objects are
// stored in the version of the first definition. The result also has the first one's
// names, scope and conversion. It keeps an error as the result of [Of] does. Its
// counterpart in kube-rs is merge_crds.
//
//	var definition = crd.Join(
//		crd.Of[v1.Echo](crd.Options{}),
//		crd.Of[v1beta1.Echo](crd.Options{Deprecated: "example.com/v1beta1 Echo is deprecated: use v1"}),
//	)
//
// Without a conversion webhook the server changes apiVersion only. If one version has a
// field that another version lacks, a write through the other version loses the field.
//
// [Converts] gives a version functions that convert. If one of others has functions, each needs them.
// The result then says that a webhook converts the objects, by reviews v1. The address of the webhook is
// missing: set Spec.Conversion.Webhook.ClientConfig before Install. It is an error if a field of both
// versions has different defaults, or if Spec.Conversion was set before.
func Join(stored *Definition, others ...*Definition) *Definition {
	joined := *stored
	joined.Spec.Versions = slices.Clone(stored.Spec.Versions)
	for _, o := range others {
		if err := cmp.Or(joined.err, o.err, joined.join(o)); err != nil {
			return &Definition{err: err}
		}
	}
	if err := cmp.Or(joined.err, checkPairs(&joined)); err != nil {
		return &Definition{err: err}
	}
	return &joined
}

// join adds the versions of another definition.
func (d *Definition) join(o *Definition) error {
	if o.Spec.Group != d.Spec.Group || o.Spec.Names.Kind != d.Spec.Names.Kind {
		return fmt.Errorf("join versions: %s in %s and %s in %s are different kinds",
			o.Spec.Names.Kind, o.Spec.Group, d.Spec.Names.Kind, d.Spec.Group)
	}
	if o.stored && !d.stored {
		return fmt.Errorf("join versions: a marker makes %s the storage version: it must come first",
			o.Spec.Versions[0].Name)
	}
	for _, v := range o.Spec.Versions {
		if d.Version(v.Name) != nil {
			return fmt.Errorf("join versions: there are two %s of %s", v.Name, d.Name)
		}
		v.Storage = false
		d.Spec.Versions = append(d.Spec.Versions, v)
	}
	return joinPairs(d, o)
}
