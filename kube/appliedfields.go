package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/owned"
	"github.com/pintle-go/pintle/kube/internal/scan"
)

// Ensure has to notice that another process applies more fields in the name of the same
// field manager. The values of the fields that this process knows of do not show it.
// The manager's entry in metadata.managedFields does, but stores drop managedFields. So
// the table hashes that one entry when the server tells of an object that was ensured,
// before the managedFields are dropped. Nothing is hashed or kept for other objects.

// sight is what a table was last told of the fields that a manager applies.
type sight struct {
	rv   string // of the object
	owns uint64 // the hash of the manager's entry, zero if there is none
}

// appliedSum returns a hash of the fields that a manager applies to an object or its
// subresource. It is zero if there are none.
func appliedSum(entries []metav1.ManagedFieldsEntry, manager, subresource string) uint64 {
	for i := range entries {
		if e := &entries[i]; isApplied(e, manager, subresource) {
			return owned.Sum(e.FieldsV1.GetRawBytes())
		}
	}
	return 0
}

// isApplied reports that an entry names the fields that a manager applies to an object
// or its subresource. There is one such entry at most.
func isApplied(e *metav1.ManagedFieldsEntry, manager, subresource string) bool {
	return e.Operation == metav1.ManagedFieldsOperationApply && e.FieldsV1 != nil &&
		e.Manager == manager && e.Subresource == subresource
}

// appliedSum is appliedSum for a record. It reports whether the server has sent any
// managedFields: some servers leave them out.
func (rec *record) appliedSum(manager, subresource string) (sum uint64, told bool) {
	each := func(e *managedEntry) {
		told = true
		if e.operation == string(metav1.ManagedFieldsOperationApply) && e.fields != nil &&
			e.manager == manager && e.subresource == subresource {
			sum = owned.Sum(e.fields)
		}
	}
	if rec.proto {
		eachManagedProtobuf(rec.wire, each)
	} else {
		eachManagedJSON(rec.wire, each)
	}
	return sum, told
}

// managedEntry is a metav1.ManagedFieldsEntry that is still partly encoded.
type managedEntry struct {
	manager, operation, subresource string
	fields                          []byte
}

// Of ManagedFieldsEntry, and of its FieldsV1.
const (
	fieldManager     = 1
	fieldOperation   = 2
	fieldFieldsV1    = 7
	fieldSubresource = 8
	fieldFieldsRaw   = 1
)

// eachManagedProtobuf calls f with the managedFields of an ObjectMeta. It passes over
// malformed ones.
func eachManagedProtobuf(meta []byte, f func(*managedEntry)) {
	for len(meta) > 0 {
		field, rest, err := nextField(meta)
		if err != nil {
			return
		}
		meta = rest
		if field.num != fieldManagedFields {
			continue
		}
		var e managedEntry
		for msg := field.val; len(msg) > 0; {
			part, rest, err := nextField(msg)
			if err != nil {
				break
			}
			msg = rest
			switch part.num {
			case fieldManager:
				e.manager = string(part.val)
			case fieldOperation:
				e.operation = string(part.val)
			case fieldSubresource:
				e.subresource = string(part.val)
			case fieldFieldsV1:
				e.fields, _ = findField(part.val, fieldFieldsRaw)
			}
		}
		f(&e)
	}
}

// eachManagedJSON is eachManagedProtobuf for metadata in JSON.
func eachManagedJSON(meta []byte, f func(*managedEntry)) {
	_ = scan.Members(meta, func(name string, entries []byte) error {
		if name != "managedFields" {
			return nil
		}
		return scan.Elements(entries, func(entry []byte) error {
			var e managedEntry
			err := scan.Members(entry, func(name string, value []byte) error {
				switch name {
				case "manager":
					e.manager = scan.Unquote(value)
				case "operation":
					e.operation = scan.Unquote(value)
				case "subresource":
					e.subresource = scan.Unquote(value)
				case "fieldsV1":
					e.fields = value
				}
				return nil
			})
			f(&e)
			return err
		})
	})
}

// told notes the fields that the field managers of Ensure apply to an object, which the
// server has told of. It comes before the object is in the table's content. A state that
// is older than a known one counts only if it was listed.
func (p *ensuredParts) told(rec *record, listed bool) {
	for _, id := range partsOf(rec.key) {
		p.mu.Lock()
		last, known := p.by[id]
		p.mu.Unlock()
		if !known {
			continue
		}
		owns, told := rec.appliedSum(last.manager, id.subresource())
		if !told {
			continue
		}
		p.mu.Lock()
		now, ok := p.by[id]
		if ok && now.manager == last.manager && (listed || !olderThan(rec.rv, now.sight.rv)) {
			p.by[id] = now.told(sight{rec.rv, owns})
		}
		p.mu.Unlock()
	}
}

// told returns what is known after the table was told of a state of the object.
func (e ensured) told(s sight) ensured {
	if e.by == nil && !e.foreign() && s.rv == e.sight.rv {
		e.owns = s.owns // the server shows the same state in its own way
	}
	e.sight = s
	return e
}

// answered returns what is known after the server has answered an apply.
func (e ensured) answered(s sight) ensured {
	e.owns = s.owns
	switch {
	case e.sight.rv == "" || olderThan(e.sight.rv, s.rv):
		e.sight = s
	case e.sight.rv == s.rv:
		e.owns = e.sight.owns // the server shows the same state in its own way
	}
	return e
}

// foreign reports that the manager applies other fields than after the apply that is
// remembered: another process applies in its name.
func (e ensured) foreign() bool { return e.sight.owns != e.owns }
