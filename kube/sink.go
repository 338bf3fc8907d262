package kube

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// A sink takes the records of a reflector. A record is valid during the call. An
// error of any method ends the reflector, which returns it.
type sink interface {
	// begin: a listing starts. It may be cut short and begin again.
	begin()
	// item is an object of the listing. It is the server's state, even if it is older
	// than the state that was seen before, as after a restore of the server's storage.
	item(wire.Record) error
	// drop: an object of the listing under way was deleted meanwhile.
	drop(wire.Record) error
	// keep: the listing under way has the object of a key, but the object cannot be read.
	// If the key cannot be read either, the key is zero: the unread object may be any
	// object.
	keep(Key)
	// synced: the listing is complete as of a resource version, or as of now if rv is
	// empty. Objects that were there before and were not listed are gone.
	synced(rv string) error
	// event is a change after the listing.
	event(kind string, rec wire.Record) error
	// floor returns the latest resource version that was known, besides the reflector's own, when
	// the listing under way began. A listing that is older is stale.
	floor() string
	// progress: everything up to a resource version has been seen.
	progress(rv string)
	// setTrouble gets the present trouble, or nil if there is none.
	setTrouble(*Trouble)
	// trouble reports a trouble to people.
	trouble(*Trouble) error
	// recovered reports that a reported trouble is over.
	recovered(*Trouble) error
}

// change returns the meaning of a record for a reader who has, or has not, seen an object
// of the same name before: Added, Modified or, if the record is not later, nothing. A
// listed record counts even if it is older. Added of a known object means that the old
// object is gone.
func change(known, listed bool, uid types.UID, rv string, rec *wire.Record) WatchEventType {
	switch {
	case !known:
		return Added
	case !listed && versions.Older(rec.ResourceVersion, rv):
		return ""
	case uid != rec.UID:
		return Added
	case rv == rec.ResourceVersion && rv != "":
		return ""
	}
	return Modified
}
