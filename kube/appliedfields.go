package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/owned"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Another process may apply more fields in the name of the same field manager, and Ensure
// has to notice that. The values of the fields that this process knows of do not show it.
// The manager's entry in metadata.managedFields shows it, but stores drop managedFields.
// So the table hashes that one entry before it drops the managedFields. It does so when
// the server tells of an object that was ensured. Nothing is hashed or kept for other
// objects.

// sight describes the fields that a manager applies, as the server last told a table of
// them.
type sight struct {
	rv   string // resourceVersion of the object
	owns uint64 // the hash of the manager's entry, zero if there is none
}

// appliedSum returns a hash of the fields that a manager applies to an object or its
// subresource. The hash is zero if there are no such fields.
func appliedSum(entries []metav1.ManagedFieldsEntry, manager, subresource string) uint64 {
	for i := range entries {
		if e := &entries[i]; isApplied(e, manager, subresource) {
			return owned.Sum(e.FieldsV1.GetRawBytes())
		}
	}
	return 0
}

// isApplied reports that an entry names the fields that a manager applies to an object or
// its subresource. There is one such entry at most.
func isApplied(e *metav1.ManagedFieldsEntry, manager, subresource string) bool {
	return e.Operation == metav1.ManagedFieldsOperationApply && e.FieldsV1 != nil &&
		e.Manager == manager && e.Subresource == subresource
}

// told notes the fields that the field managers of Ensure apply to an object. The server
// has told of this state of the object. The call comes before the object is in the
// table's content. A state that is older than a known one counts only if it was listed.
func (p *ensuredParts) told(key Key, rec *wire.Record, listed bool) {
	for _, id := range partsOf(key) {
		p.mu.Lock()
		last, known := p.by[id]
		p.mu.Unlock()
		if !known {
			continue
		}
		owns, told := rec.AppliedSum(last.manager, id.subresource())
		p.mu.Lock()
		now, ok := p.by[id]
		if ok && listed && versions.Older(rec.ResourceVersion, now.rv) {
			now.rv = "" // a server that was restored gives a version twice
			p.by[id] = now
		}
		if ok && now.manager == last.manager && (listed || !versions.Older(rec.ResourceVersion, now.sight.rv)) {
			if told {
				now = now.told(sight{rec.ResourceVersion, owns})
			} else {
				now = now.untold(rec.ResourceVersion)
			}
			p.by[id] = now
		}
		p.mu.Unlock()
	}
}

// told returns e as it is after the server has told the table of a state of the object.
func (e ensured) told(s sight) ensured {
	if e.by == nil && !e.foreign() && s.rv == e.sight.rv {
		e.owns = s.owns // the server shows the same state in its own way
	}
	e.sight = s
	return e
}

// untold returns e as it is after the server has shown a state of the object without its
// managedFields. Nothing then shows that another process applies in the manager's name,
// and an earlier sight must not be taken for a later one: the versions may not be
// comparable.
func (e ensured) untold(rv string) ensured {
	e.sight = sight{}
	if e.by == nil {
		e.sight = sight{rv, e.owns}
	}
	return e
}

// answered returns e as it is after the server has answered an apply.
func (e ensured) answered(s sight) ensured {
	e.owns = s.owns
	switch {
	case e.sight.rv == "" || versions.Older(e.sight.rv, s.rv):
		e.sight = s
	case e.sight.rv == s.rv:
		e.owns = e.sight.owns // the server shows the same state in its own way
	}
	return e
}

// foreign reports that the manager applies other fields than it did after the remembered
// apply. Then another process applies in the manager's name.
func (e ensured) foreign() bool { return e.sight.owns != e.owns }
