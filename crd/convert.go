package crd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	experiment "github.com/go-json-experiment/json"
	"github.com/pintle-go/pintle/internal/jsonfields"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Converts gives the definition of a version two functions. They convert objects to the storage
// version and back. [Join] takes the result as one of its others:
//
//	var definition = crd.Join(
//		crd.Of[v2.CronJob](crd.Options{}),
//		crd.Converts(crd.Of[v1.CronJob](crd.Options{}), toV2, toV1),
//	)
//
//	func toV2(from *v1.CronJob, to *v2.CronJob) error { … }
//	func toV1(from *v2.CronJob, to *v1.CronJob) error { … }
//
// If more than two versions exist, each has functions to and from the storage version. In
// controller-runtime the methods ConvertTo and ConvertFrom of a conversion.Convertible do this, and
// the storage version is the conversion.Hub.
//
// # What a function has to do
//
// A function gets to with the metadata of from, and otherwise empty. It sets the other fields. It may
// change labels and annotations. The API server restores the rest of the metadata.
//
// A function must not fill in defaults: the API server does that after the conversion. It must accept
// an object that has any part of its fields, because the API server converts parts of objects when
// somebody applies one. It should not return an error for any object that the schema allows. An object
// that cannot be converted can be neither listed nor watched in the other version, and it stops the
// garbage collector and the deletion of its namespace. The functions run at the same time in several
// goroutines, and should use only their arguments.
//
// # Kept fields
//
// One version often has fields that the other lacks. [Definition.Convert] converts each object back
// too, and notes in an annotation what that lost. The annotation is crd.pintle.dev/kept-VERSION, where
// VERSION has these fields. When the object is converted to that version, the fields come back. So no
// function has to keep anything, and a write through a version that lacks a field does not lose it.
//
// A noted value comes back only if the other version still shows what it showed when the value was
// noted. An example is a list of ports in v2, of which v1 shows the first. If a user of v1 changes
// that one, v2 has a list of the new port alone. The elements of a list are told apart by their keys,
// if the list is a map by keys, otherwise by their contents.
//
// A client that removes the annotation removes the fields too. A note that the schema of its version
// does not allow has no effect. A note may have 200 KiB, and an object 256 KiB of annotations. If the
// storage version cannot note what another version has, the conversion fails, and so does the write. If
// another version cannot note what the storage version has, it can be read, but a write of the object
// through that version fails.
//
// # What it costs
//
// The API server sends one object per call. For each served version it keeps a cache, for which it
// converts each write. While it cannot call the program, objects are still read and written in the
// storage version, if all are stored in it. The other versions fail, and writes can lose the owners of
// fields in metadata.managedFields. Each change of the definition, also of its CA bundle, makes the API
// server convert all objects again and ends the watches of all versions. So serve few versions, use the
// storage version in the program, and keep the authority of the webhook for long.
func Converts[Other, Stored any](version *Definition, toStored func(*Other, *Stored) error,
	toOther func(*Stored, *Other) error) *Definition {
	other, stored := reflect.TypeFor[Other](), reflect.TypeFor[Stored]()
	return converted(version, other, stored, pair{
		toStored: func(from, to any) error { return toStored(from.(*Other), to.(*Stored)) },
		toOther:  func(from, to any) error { return toOther(from.(*Stored), to.(*Other)) },
	}, toStored == nil || toOther == nil)
}

// pairs are the functions of a definition. Programs without any do not link their code.
type pairs interface {
	ready(d *Definition, log *slog.Logger) error
	readdress(before, d *Definition) []byte
}

// functions are those of the versions that are not the storage version.
type functions []pair

// functionsOf returns those of a definition.
func functionsOf(d *Definition) functions {
	f, _ := d.pairs.(functions)
	return f
}

// pair converts between the storage version and another one.
type pair struct {
	version  string // the other one
	types    [2]reflect.Type
	options  [2]experiment.Options
	toStored func(from, to any) error
	toOther  func(from, to any) error
}

// The indexes of a pair's types.
const (
	otherSide = iota
	storedSide
)

// converted returns a copy of a definition whose version has a pair.
func converted(d *Definition, other, stored reflect.Type, p pair, incomplete bool) *Definition {
	fail := func(format string, args ...any) *Definition {
		args = slices.Concat([]any{other, stored}, args)
		return &Definition{err: fmt.Errorf("convert between %s and %s: "+format, args...)}
	}
	switch {
	case d.err != nil:
		return d
	case len(d.Spec.Versions) != 1 || len(functionsOf(d)) > 0:
		return fail("the definition has several versions or functions already: give the functions to each version of its own")
	case d.goType != other:
		return fail("the definition is of %v", d.goType)
	case incomplete:
		return fail("a function is nil")
	}
	with := *d
	p.version, p.types = d.Spec.Versions[0].Name, [2]reflect.Type{other, stored}
	p.options = [2]experiment.Options{jsonfields.ReadOptions(other), jsonfields.ReadOptions(stored)}
	with.pairs = functions{p}
	return &with
}

// joinPairs adds the functions of another definition, which was joined. It checks that each version
// has functions if one of them has.
func joinPairs(d, o *Definition) error {
	if len(functionsOf(d)) == 0 && len(functionsOf(o)) == 0 {
		return nil
	}
	for _, p := range functionsOf(o) {
		if stored := p.types[storedSide]; stored != d.goType {
			return fmt.Errorf("join versions: %s is converted to %s: the storage version is of %v", p.version, stored, d.goType)
		}
		if err := sameDefaults(d.Spec.Versions[0].Schema.OpenAPIV3Schema, d.Version(p.version).Schema.OpenAPIV3Schema,
			""); err != nil {
			return fmt.Errorf("join versions %s and %s: %w", d.Spec.Versions[0].Name, p.version, err)
		}
	}
	if d.Spec.Conversion != nil && len(functionsOf(d)) == 0 || o.Spec.Conversion != nil {
		return errors.New("join versions: there are functions that convert, and Spec.Conversion is set: " +
			"set its client config after Join")
	}
	d.pairs = slices.Concat(functionsOf(d), functionsOf(o))
	d.Spec.Conversion = &Conversion{Strategy: "Webhook", Webhook: &WebhookConversion{
		ConversionReviewVersions: []string{"v1"},
	}}
	return nil
}

// checkPairs returns an error if only some of the versions have functions.
func checkPairs(d *Definition) error {
	for i, v := range d.Spec.Versions {
		switch has := pairFor(d, v.Name) != nil; {
		case has && i == 0:
			return fmt.Errorf("join versions: %s comes first, so objects are stored in it: "+
				"give the functions to the other versions", v.Name)
		case len(functionsOf(d)) > 0 && !has && i > 0:
			return fmt.Errorf("join versions: %s has no functions that convert, as others have: use Converts", v.Name)
		}
	}
	return nil
}

// pairFor returns the functions of a version that is not the storage version, or nil.
func pairFor(d *Definition, version string) *pair {
	all := functionsOf(d)
	for i := range all {
		if all[i].version == version {
			return &all[i]
		}
	}
	return nil
}

// ready returns an error if nothing says where the functions of a definition are called. It logs that
// the definition makes each write expensive.
func (functions) ready(d *Definition, log *slog.Logger) error {
	if c := d.Spec.Conversion; d.converts() && (c.Webhook == nil || c.Webhook.ClientConfig == nil) {
		return errors.New("it has functions that convert: set the address of the webhook that calls them " +
			"in Spec.Conversion.Webhook.ClientConfig")
	}
	var served []string
	for _, v := range d.Spec.Versions {
		if v.Served {
			served = append(served, v.Name)
		}
	}
	if len(served) > 2 {
		log.Warn("the API server converts each write of an object into every served version: serve at most two",
			"definition", d.Name, "served", served)
	}
	return nil
}

// readdress returns the merge patch that an installed definition needs before another one is applied:
// one has a URL as its address, and the other a Service. With an apply alone it would have both if the
// managers differ, and the server refuses that. It returns nil if nothing is needed.
func (functions) readdress(before, d *Definition) []byte {
	was, is := before.address(), d.address()
	if was == nil || is == nil || (was.URL == nil) == (is.URL == nil) {
		return nil
	}
	return fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"conversion":{"webhook":{"clientConfig":%s}}}}`,
		before.UID, before.ResourceVersion, encoded(map[string]any{"url": is.URL, "service": is.Service, "caBundle": is.CABundle}))
}

// address returns the address of the webhook that converts, or nil.
func (d *Definition) address() *WebhookClientConfig {
	if c := d.Spec.Conversion; c != nil && c.Webhook != nil {
		return c.Webhook.ClientConfig
	}
	return nil
}

// sameDefaults returns an error if a field of both schemas has different defaults. Reading such a
// field in the other version, and writing it back, would change it.
func sameDefaults(a, b *Schema, path string) error {
	if a == nil || b == nil {
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(a.Properties)) {
		p, q := a.Properties[name], b.Properties[name]
		if q == nil {
			continue
		}
		at := path + jsonPathStep(name)
		if (p.Default != nil || q.Default != nil) && !sameJSON(p.Default, q.Default) {
			text := func(s *Schema) string {
				if s.Default == nil {
					return "none"
				}
				return string(s.Default)
			}
			errs = append(errs, fmt.Errorf("%s has the defaults %s and %s: they must be the same, "+
				"because the server fills them in after it converts an object", at, text(p), text(q)))
		}
		errs = append(errs, sameDefaults(p, q, at))
	}
	return errors.Join(append(errs, sameDefaults(a.Items, b.Items, path+"[]"),
		sameDefaults(a.values(), b.values(), path+"[*]"))...)
}

// ErrVersion is the error for an object or a version that a definition cannot convert: of a kind that
// is not the definition's, or of a version without functions.
var ErrVersion = errors.New("there is no conversion")

// Convert converts the JSON of one object to a version, by the functions of [Converts]. It keeps what
// the other version lacks in an annotation. Metadata other than labels and annotations stays as it is,
// byte by byte. An object that has the version already is returned unchanged. The error wraps
// [ErrVersion] or is that of a function.
//
// The API server calls it by the conversion webhook. Programs need it in tests. Its counterpart in
// controller-runtime is the handler of webhook/conversion.
func (d *Definition) Convert(object []byte, version string) ([]byte, error) {
	if d.err != nil {
		return nil, d.err
	}
	o, err := readObject(object)
	if err != nil {
		return nil, err
	}
	if len(functionsOf(d)) == 0 {
		return nil, fmt.Errorf("%w for %s", ErrVersion, d.Name)
	}
	storage := d.Spec.Versions[0].Name // Join puts it there
	for o.version != version || o.group != d.Spec.Group || o.kind != d.Spec.Names.Kind {
		p, next := pairFor(d, o.version), storage
		if o.version == storage {
			p, next = pairFor(d, version), version
		}
		if p == nil || o.group != d.Spec.Group || o.kind != d.Spec.Names.Kind || d.Version(version) == nil {
			return nil, fmt.Errorf("%w of %s %s in %s to %s", ErrVersion, o.version, o.kind, o.group, version)
		}
		if o, err = step(d, o, p, next); err != nil {
			return nil, err
		}
	}
	return o.raw, nil
}

// step converts an object to the storage version or from it.
func step(d *Definition, o *object, p *pair, next string) (*object, error) {
	up := next != p.version
	from, to := d.Version(o.version).Schema.OpenAPIV3Schema, d.Version(next).Schema.OpenAPIV3Schema
	n, err := p.call(o, next, up)
	if err != nil {
		return nil, err
	}
	note := o.annotations[keptPrefix+next]
	if up && (note == tooLarge || note == unknown) {
		return nil, fmt.Errorf("%s lacks fields of %s that could not be kept: they are %s: write the object in %s",
			o.version, next, strings.Trim(note, `"`), next)
	}
	delete(n.annotations, keptPrefix+next)
	delete(n.annotations, keptPrefix+o.version)
	if err := cmp.Or(n.restore(note, to), n.write(o)); err != nil {
		return nil, err
	}
	back, err := p.call(n, o.version, !up)
	switch {
	case err == nil:
		note, err = o.lost(back, from)
	case up:
		err = fmt.Errorf("convert back to %s: %w", o.version, err)
	default:
		note, err = unknown, nil // to read an object must not fail
	}
	if err != nil || note == "" {
		return n, err
	}
	n.annotate(keptPrefix+o.version, note)
	if len(note) > maxKept || size(n.annotations) > maxAnnotations {
		if up {
			return nil, fmt.Errorf("%s lacks fields of %s that are too large to be kept: %d bytes", next, o.version, len(note))
		}
		n.annotate(keptPrefix+o.version, tooLarge)
		if size(n.annotations) > maxAnnotations {
			delete(n.annotations, keptPrefix+o.version) // to read an object must not fail
		}
	}
	return n, n.write(o)
}

// call calls a function of a pair.
func (p *pair) call(o *object, next string, up bool) (*object, error) {
	side, f := storedSide, p.toOther
	if up {
		side, f = otherSide, p.toStored
	}
	from, to := reflect.New(p.types[side]).Interface(), reflect.New(p.types[1-side]).Interface()
	if err := experiment.Unmarshal(o.raw, from, p.options[side]); err != nil {
		return nil, fmt.Errorf("decode %s: %w", o.version, err)
	}
	meta := metaOf(to)
	metaOf(from).DeepCopyInto(meta)
	if err := f(from, to); err != nil {
		return nil, err
	}
	n := &object{group: o.group, version: next, kind: o.kind, metadata: o.metadata}
	n.labels, n.annotations = meta.Labels, maps.Clone(meta.Annotations)
	if meta.Name == "" && meta.Labels == nil && meta.Annotations == nil {
		// The function has set the whole object, without its metadata.
		n.labels, n.annotations = o.labels, maps.Clone(o.annotations)
	}
	for key, text := range o.annotations {
		if strings.HasPrefix(key, keptPrefix) {
			n.annotate(key, text)
		}
	}
	text, err := jsonfields.Encode(to) // a schema that requires a list refuses null
	if err == nil {
		err = experiment.Unmarshal(text, &n.fields, readOptions)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", next, err)
	}
	for _, name := range alwaysThere {
		delete(n.fields, name)
	}
	return n, n.write(o)
}

func metaOf(o any) *metav1.ObjectMeta {
	return o.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}
