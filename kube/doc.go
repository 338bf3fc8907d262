// Package kube is a typed client for Kubernetes: handles for the objects of a
// kind, watches that heal, and compact stores that watches fill.
//
// [Connect] finds a cluster as kubectl does. [For] makes a [Resource] handle for a Go
// type, and [ViewOf] a [View] for a struct that has some fields of a kind; [ForKind]
// and [ViewOfKind] are for types that do not name their kind. A [Reader] only reads.
// Handles are values: In, Labeled, Fielded and With return narrowed copies, and making
// one costs no request.
//
//	client, err := kube.Connect()
//	books := kube.For[Book](client).In("default")
//	book, err := books.Get(ctx, "dune")
//
// # From the wire to the program
//
// A watch event enters in reflector.go, which lists, watches, resumes and
// recovers; jsonwire.go and protobuf.go cut the stream into objects, prune.go
// drops what nobody asked for, and the result, a record, goes to a sink: the
// iterator of watch.go or, by tablesink.go, the table of table.go. Its content is an
// immutable snapshot, of snapshot.go: store.go and index.go read it, and subscribe.go
// hands the difference of two of them to those who act on changes.
//
// # Caveats
//
// There is no client-side rate limit: the server's priority and fairness
// limits clients. A failed request is repeated only where that is safe; see
// request.go.
package kube
