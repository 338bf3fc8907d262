// Package kube is a typed client for Kubernetes. It has handles for the objects of a
// kind, watches that heal, and compact stores that watches fill. Its counterparts are
// controller-runtime's packages client and cache, and kube-rs's kube-client and
// kube-runtime.
//
// [Connect] finds a cluster as kubectl does. [For] makes a [Resource] handle for a Go
// type, and [ViewOf] a [View] for a struct that has some fields of a kind. Both take a
// [Kind] for a type that does not name its own. A [Reader] only reads. Handles are values:
// In, Labeled and Fielded return narrowed copies, With a copy that writes with options, and
// making one costs no request.
//
// Get, List and Watch of a handle ask the server. [Reader.Cached] has the reads that are
// served from memory, and [Reader.Open] the informer that fills the memory and yields the
// changes. Ensure is for a reconcile, which declares what it wants; the other writes are the
// verbs of the API. [View.Status] has the same writes for the status alone.
//
//	client, err := kube.Connect()
//	books := kube.For[Book](client).In("default")
//	book, err := books.Get(ctx, "dune")          // from the server
//	book, err = books.Cached().Get(ctx, "dune") // from memory
//
// # From the wire to the program
//
// reflector.go mirrors the objects of a kind: listing.go lists them and streaming.go
// watches them. Package kube/internal/wire cuts the answers into objects, drops the
// fields that nobody asked for, and makes a record of each object. A record goes to a
// sink. eventsink.go takes it to the iterator of watch.go, and tablesink.go takes it to
// the table of table.go. The content of a table is an immutable snapshot, of snapshot.go.
// answers.go gives the table the server's answers to writes, as events beside those of the
// watch, and kube/internal/own decides which of the two is later. writer.go makes the next
// snapshot of either. store.go and index.go read the snapshot. subscribe.go hands the difference of two
// snapshots to every loop that acts on changes.
//
// # Caveats
//
// There is no client-side rate limit: the server's priority and fairness limits clients.
// A failed request is repeated only where that is safe; see request.go.
package kube
