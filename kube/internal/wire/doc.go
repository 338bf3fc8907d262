// Package wire turns the bytes of the API server into records and objects, and objects
// into bytes. It knows the encodings and nothing of clients, watches and stores. Bytes
// pass through its files in this order:
//
//   - answer.go says which encodings a request accepts, and which one an answer has.
//   - list.go and events.go cut an answer's body into objects, each a [Raw].
//   - record.go makes a [Record] of a Raw: the metadata apart from the rest. keep.go cuts
//     off the fields that nobody asked for.
//   - entry.go keeps a Record as an [Entry], and reads its metadata.
//   - codec.go decodes a Raw, a Record or an Entry into a Go type, and encodes objects.
//     project.go copies from the type that protobuf fills to a type with fewer fields.
//
// protobuf.go has the functions with which the other files walk Kubernetes' protobuf
// messages. bound.go bounds every piece that is held in memory.
package wire
