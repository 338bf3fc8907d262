// Package intent encodes a plain Go struct as the body of a server-side apply:
// the fields that were meant, and no others.
//
// In a server-side apply (KEP-555) every field in the body becomes the field
// manager's own: it is set back when others change it, conflicts with them,
// and is removed once a later body lacks it. encoding/json is wrong for this:
// it sends `"strategy":{}`, `"resources":{}`, `"creationTimestamp":null` and
// `"targetPort":0`, which nobody meant. [For] builds an [Encoder] of a type
// once; [Encoder.Object] appends an object to a buffer.
//
// # Which fields are sent
//
//   - A nil pointer, slice, map or interface is left out, whatever its tag. So
//     is a pointer to a nil pointer.
//   - A pointer or interface that is not nil is sent, whatever it points to:
//     `replicas: 0`, `emptyDir: {}`, `storageClassName: ""`.
//   - A field tagged omitempty is left out when it is Go's zero value, an
//     empty list or map, or a struct that encodes to an empty object, because
//     all that is in it is left out. A struct of zero values and empty lists
//     is zero too.
//   - A field tagged omitzero is left out when its IsZero method, or Go, says
//     that it is zero, or when it is a struct that encodes to an empty object.
//     As in encoding/json an empty list or map that is not nil is sent.
//   - Any other field is required by the author of its type and always sent:
//     0 ready replicas say 0.
//   - A value that encodes itself as null while it is zero (metav1.Time,
//     RawExtension) is left out, whatever its tag. So is a nil pointer that is
//     the value of a map's entry.
//   - Elements of lists are never left out (`ingress: [{}]`). Nulls that were
//     written on purpose, inside an any, a RawExtension or another type that
//     encodes itself, are kept.
//
// An empty list under omitempty is thus not "own this list and keep it empty"
// but "own no part of it": items applied before are removed, those of others
// stay. To insist on an empty list use a type without omitempty there, or with
// omitzero.
//
// # Which parts of the object are sent
//
// apiVersion and kind are stamped from [Options]. Of the object's metadata
// nothing that the server sets is sent: managedFields, resourceVersion,
// generation, creationTimestamp, deletionTimestamp,
// deletionGracePeriodSeconds, selfLink; nor finalizers, because a list of them
// that is applied takes away those of others or puts back removed ones. The
// uid is sent if there is one: it makes the server refuse to create anew what
// was deleted meanwhile. The status is sent by [Status] alone, with no more of
// the metadata than name, namespace and uid, and then also if it is zero.
// Metadata further down (pod templates) is like any other field.
//
// # How values are encoded
//
// Names, embedding, conflicts between embedded fields, "-", the string option,
// []byte, floats, maps with keys of text or integers, MarshalJSON and
// MarshalText are as in encoding/json, with these differences: methods on
// pointer receivers are always found; a nil list or map inside a list or map
// is `[]` or `{}`; HTML is not escaped; invalid UTF-8 and map keys that occur
// twice are errors instead of silent changes. The same object always gives the
// same bytes.
//
// Sources: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/555-server-side-apply
// and the documentation of encoding/json.
package intent
