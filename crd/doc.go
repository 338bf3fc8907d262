// Package crd makes a CustomResourceDefinition from a Go struct and installs it. It needs
// no generator and no file that could become out of date.
//
//	// An Echo asks for a number of echo servers.
//	type Echo struct {
//		kube.Object
//		Spec struct {
//			// Replicas is the number of servers.
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
//	var definition = crd.Of[Echo](crd.Options{ShortNames: []string{"echo"}, Source: source})
//	…
//	err = crd.Install(ctx, client, definition)
//
// The counterparts are controller-tools' controller-gen crd and kube-rs's derive macro
// CustomResource.
//
// # From Go to schema
//
// A field has the name that encoding/json gives it. It is optional if its tag has
// omitempty or omitzero, or if it has a default. All other fields are required.
//
// The schema of a type describes its JSON. If a type encodes itself, its method
// OpenAPISchemaType names its JSON type. Without this method a type that implements
// encoding.TextMarshaler is a string, and for a type with MarshalJSON a tag or marker
// says what it is. The package knows IntOrString, Quantity, Time, RawExtension and similar
// types. The type any allows any value and keeps it.
//
// The schema refuses what the Go type cannot read: a duration of a day ("1d"), a time in
// small letters, a number beyond the type's bits. No tag widens that. Of a type that reads
// text the package knows only that it is a string: give the field a pattern, because the
// program cannot read an object with any other text.
//
// A list of metav1.Condition is a map by type, and its elements have the validation that
// the author of metav1.Condition wrote. A list with a patchMergeKey is a map by that key.
// Lists, maps, structs and defaults of Kubernetes' own types are as in the API server's
// own schemas: a label selector is applied as a whole. The metadata of a pod template or
// a Job template keeps its name, namespace, labels, annotations and finalizers.
//
// A type that contains itself has no structural schema and is an error, unless the key
// schemaless cuts it. Other errors are time.Duration (use
// metav1.Duration), and types that encoding/json writes and cannot read back.
//
// Doc comments become descriptions if the source is given: see [Options].Source.
//
// # Tags
//
// The tag crd of a field is a list of keys with commas between them. Some keys have a
// value after an equals sign. A value with a comma stands in single quotes. Inside them
// two single quotes stand for one: crd:"pattern='^a{1,3}$',minLength=1".
//
//	min, max, exclusiveMin, exclusiveMax, multipleOf   of numbers; exclusiveMin and exclusiveMax without
//	                                                   a value are about the limit of the type
//	minLength, maxLength, pattern, format              of strings; all but format, and the
//	                                                   above, of int-or-strings as well
//	minItems, maxItems                                 of lists
//	minProperties, maxProperties                       of maps: how many entries
//	notEmpty                                           of strings, lists and maps: at least one character
//	                                                   or entry, unless there is a minimum
//	enum=a|b|c                                         or a JSON array; no semicolons between values
//	default=…                                          of lists, maps and structs as JSON
//	required, optional                                 in spite of the json tag
//	nullable
//	listType=atomic|set|map, listMapKey=a|b            the latter implies map
//	mapType=atomic|granular
//	immutable                                          it stays as it was created
//	rule=…                                             CEL; after it message, messageExpression,
//	                                                   reason, fieldPath, optionalOldSelf of that rule
//	column, column=Name                                a column of kubectl get, with columnPath (the
//	                                                   part after the field's path), columnType,
//	                                                   columnFormat, priority
//	selectable                                         field selectors may name it
//	title=…, description=…, deprecated, deprecated=use x
//	type=string                                        of types that encode themselves; or integer, number,
//	                                                   boolean, array, object, int-or-string, any
//	schemaless                                         any value, whatever the Go type is
//	preserveUnknownFields, embeddedResource
//
// A key with the prefix items. or values. is about the elements of a list or map:
// crd:"maxItems=3,items.pattern=^[a-z]+$". The tag of a blank field is about the struct
// as a whole:
//
//	_ struct{} `crd:"rule='self.min <= self.max',message='min must not be above max'"`
//
// In the tag of a blank field of the kind itself, deprecated is about the version. A
// wrong tag is an error that names type, field and tag.
//
// # Markers
//
// Tags are the only language of constraints. The comments of an API package that other
// programs generate from have the markers of controller-gen instead. [Options].Markers
// turns them into tags when the program runs, and the source stays as it is: see package
// kubebuilder.
//
// A type that is declared as type X Y has the markers of Y and of X. The constraints of a
// field's markers and of its type's markers both hold: bounds, lengths, counts, patterns.
// A tag overrides a marker of the same field or of its type. Options override markers,
// except for plural and scope, which must equal those of the Kind that clients use. A wrong
// marker is an error with its file and line.
//
// # Versions
//
// [Join] makes one definition of several versions. [Converts] gives a version functions that convert its
// objects, and keeps the fields that a version lacks. [Migrate] stores all objects in a new storage version, so
// that an old version can leave the definition. Of several versions kubectl, the garbage collector and the
// deletion of namespaces use the highest: v2 before v1, v1 before v1beta1. Make it the storage version soon:
// until then each of their reads needs the webhook.
//
// # Caveats
//
// A server fills the defaults inside a struct that is there. An optional struct that the
// object leaves out stays away, with its defaults, unless the struct's field has the tag
// crd:"default={}".
//
// An immutable field can be neither changed nor added nor removed as long as the struct
// around it exists. The package reads markers from the source that the program embeds;
// without the source there are no markers. Only the server checks CEL rules and their
// cost: a wrong rule is an error of [Install].
//
// The source has three parts above the type in schema.go. check.go tells whether a value
// fits a schema. build.go makes a schema of a Go type, with readable.go, fields.go, tag.go,
// apply.go and marked.go; of.go makes the definition. compare.go finds the values that a next schema
// loses; compat.go, history.go and install.go use it. convert.go converts objects, with convertobject.go and
// kept.go; migrate.go stores them again. No file depends on one that depends
// on it, and the parts that build and compare do not know each other.
package crd
