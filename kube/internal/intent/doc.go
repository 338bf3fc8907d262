// Package intent encodes a plain Go struct as the body of a server-side apply: the fields
// that were meant, and no others.
//
// In a server-side apply (KEP-555) the field manager becomes the owner of every field in
// the body: the field is set back when others change it, conflicts with them, and is
// removed once a later body lacks it. encoding/json is wrong for this: it sends
// `"strategy":{}`, `"resources":{}`, `"creationTimestamp":null` and `"targetPort":0`,
// which nobody meant. [For] builds an [Encoder] of a type once; [Encoder.Object] appends
// an object to a buffer.
//
// # Which fields are sent
//
//   - A nil pointer, slice, map or interface is left out, for any tag. So is a pointer to
//     a nil pointer. With [Options].Custom a nil slice or map is sent empty if it is tagged
//     neither omitempty nor omitzero.
//   - A pointer or interface that is not nil is sent, even if it points to a zero value:
//     `replicas: 0`, `emptyDir: {}`, `storageClassName: ""`.
//   - A field tagged omitempty is left out if it is Go's zero value, an empty list or
//     map, or a struct that encodes to an empty object because all its fields are left
//     out. A struct of zero values and empty lists is zero too.
//   - A field tagged omitzero is left out if its IsZero method, or Go, says that it is
//     zero, or if it is a struct that encodes to an empty object. As in encoding/json, an
//     empty list or map that is not nil is sent.
//   - The author of the type requires any other field, so it is always sent: 0 ready
//     replicas say 0.
//   - A value that encodes itself as null while it is zero (metav1.Time, RawExtension) is
//     left out, for any tag. So is a nil pointer that is the value of a map's entry.
//   - Elements of lists are never left out (`ingress: [{}]`). Nulls that were written on
//     purpose, inside an any, a RawExtension or another type that encodes itself, are
//     kept.
//
// So an empty list under omitempty does not mean "own this list and keep it empty". It
// means "own no part of the list": items that were applied before are removed, and the
// items of others stay. To insist on an empty list, use a type without omitempty there,
// or with omitzero.
//
// # Which parts of the object are sent
//
// apiVersion and kind are stamped from [Options]. Metadata that the server sets is not
// sent: managedFields, resourceVersion, generation, creationTimestamp, deletionTimestamp,
// deletionGracePeriodSeconds, selfLink. Finalizers are not sent either, because applying
// a list of finalizers removes those of others or puts back removed ones. The uid is sent
// if there is one: it makes the server refuse to recreate an object that was deleted
// meanwhile. Only [Status] sends the status. It sends no more of the metadata than name,
// namespace and uid, and it sends the status also if it is zero. Metadata further down
// (pod templates) is like any other field.
//
// # How values are encoded
//
// Names, embedding, conflicts between embedded fields, "-", the string option, []byte,
// floats, maps with keys of text or integers, MarshalJSON and MarshalText are as in
// encoding/json, with these differences: methods on pointer receivers are always found; a
// nil list or map inside a list or map is `[]` or `{}`; HTML is not escaped; invalid
// UTF-8 and map keys that occur twice are errors instead of silent changes. The same
// object always gives the same bytes.
//
// Sources: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/555-server-side-apply
// and the documentation of encoding/json.
package intent
