// Package crd makes a CustomResourceDefinition from a Go struct, and installs
// it: no generator, no file to keep in step.
//
//	// An Echo asks for a number of echo servers.
//	type Echo struct {
//		kube.Object
//		Spec struct {
//			// Replicas is how many there are to be.
//			Replicas int32 `json:"replicas" crd:"min=0,max=100,column"`
//		} `json:"spec"`
//		Status struct {
//			Ready int32 `json:"ready" crd:"column"`
//		} `json:"status,omitzero"`
//	}
//
//	//go:embed echo.go
//	var source embed.FS
//
//	def, err := crd.Of[Echo](crd.Options{ShortNames: []string{"echo"}, Source: source})
//	…
//	err = crd.Install(ctx, client, def)
//
// # From Go to schema
//
// Fields are named as encoding/json names them. A field tagged omitempty or
// omitzero, or with a default, is optional; all others are required. Types are
// what they are encoded as; those that encode themselves are text if they
// implement encoding.TextMarshaler, or what their method OpenAPISchemaType
// says. IntOrString, Quantity, Time, RawExtension and the like are known, and
// any is any value, kept as it is. A list of metav1.Condition is a map by type,
// and its elements have the validation of their type's author; a list with a
// patchMergeKey is a map by that key. Lists, maps, structs and defaults of
// Kubernetes' own types are as in the API server's own schemas: a label selector
// is applied as a whole. Types that contain themselves have no structural schema:
// they are an error, as is time.Duration (use metav1.Duration), and as are types
// that encoding/json writes and cannot read back.
//
// Doc comments become descriptions where the source is given: see
// [Options].Source.
//
// # Markers
//
// The markers of controller-gen in the source's comments say what tags do, under
// the names of https://book.kubebuilder.io/reference/markers:
// +kubebuilder:validation:…, +kubebuilder:default, +listType and the like of
// fields and types; +kubebuilder:resource, :printcolumn, :subresource:scale,
// :selectablefield, :deprecatedversion, :unservedversion and :metadata of the
// kind; +kubebuilder:validation:Optional of the package. A tag wins over a marker
// of the same field. Options win over markers, but for plural and scope, which
// must not differ from the Kind that clients use. A marker of kubebuilder that is
// not known is an error with its file and line; those that only other generators
// read (object, rbac, webhook, ac, example, externalDocs, docs-gen, k8s:…-gen)
// are ignored. Status is a subresource of every type with a status, whether
// +kubebuilder:subresource:status is there or not.
//
// # Tags
//
// The tag crd of a field is a list of keys with commas between them, some with
// a value behind an equals sign. A value with a comma is put in single quotes,
// in which two single quotes stand for one: crd:"pattern='^a{1,3}$',minLength=1".
//
//	min, max, exclusiveMin, exclusiveMax, multipleOf   of numbers
//	minLength, maxLength, pattern, format              of strings; all but format, and the
//	                                                   above, of int-or-strings as well
//	minItems, maxItems                                 of lists
//	minProperties, maxProperties                       of maps: how many entries
//	enum=a|b|c                                         or a JSON array; no semicolons between values
//	default=…                                          of lists, maps and structs as JSON
//	required, optional                                 in spite of the json tag
//	nullable
//	listType=atomic|set|map, listMapKey=a|b            the latter implies map
//	mapType=atomic|granular
//	immutable                                          it stays as it was created
//	rule=…                                             CEL; behind it message, messageExpression,
//	                                                   reason, fieldPath, optionalOldSelf of that rule
//	column, column=Name                                a column of kubectl get, with columnPath (what
//	                                                   follows the field's path), columnType,
//	                                                   columnFormat, priority
//	selectable                                         field selectors may name it
//	description=…, deprecated, deprecated=use x
//	type=string                                        of types that encode themselves
//	preserveUnknownFields, embeddedResource
//
// What is said of the elements of a list or map has items. or values. before
// it: crd:"maxItems=3,items.pattern=^[a-z]+$". What is said of a struct as a
// whole stands at a blank field of it:
//
//	_ struct{} `crd:"rule='self.min <= self.max',message='min must not be above max'"`
//
// At a blank field of the kind itself, deprecated is said of the version. A wrong
// tag is a [FieldError] that names type, field and tag.
//
// # Caveats
//
// An immutable field can neither be changed nor added nor removed as long as
// the struct around it is there. Markers are read from the source that the
// program embeds, and do not exist without it. The server checks neither rules in
// CEL nor their cost before it gets them: a wrong one is an error of [Install].
//
// The source is best read in this order: of.go, schema.go, fields.go, tag.go,
// apply.go, kubebuilder.go, then compat.go, history.go and install.go.
package crd
