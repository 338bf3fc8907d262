package wire

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/owned"
	"github.com/pintle-go/pintle/kube/internal/scan"
)

// AppliedSum returns a hash of the fields that a manager applies to the object or its
// subresource. It is zero if there are none. It reports whether the server has sent any
// managedFields: some servers leave them out.
func (rec *Record) AppliedSum(manager, subresource string) (sum uint64, told bool) {
	each := func(e *managedEntry) {
		told = true
		if e.operation == string(metav1.ManagedFieldsOperationApply) && e.fields != nil &&
			e.manager == manager && e.subresource == subresource {
			sum = owned.Sum(e.fields)
		}
	}
	if rec.body.Protobuf {
		eachManagedProtobuf(rec.sent, each)
	} else {
		eachManagedJSON(rec.sent, each)
	}
	return sum, told
}

// managedEntry is a metav1.ManagedFieldsEntry that is still partly encoded.
type managedEntry struct {
	manager, operation, subresource string
	fields                          []byte
}

// Field numbers of ManagedFieldsEntry, and of its FieldsV1.
const (
	fieldManager     = 1
	fieldOperation   = 2
	fieldFieldsV1    = 7
	fieldSubresource = 8
	fieldFieldsRaw   = 1
)

// eachManagedProtobuf calls f with the managedFields of an ObjectMeta. It skips malformed
// ones.
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
