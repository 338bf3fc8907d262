package kube

import (
	"fmt"

	"github.com/go-json-experiment/json"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/scan"
)

// record is an object as it is kept: still encoded, its metadata apart. Its
// bytes are valid until the recorder makes the next one.
type record struct {
	key  Key
	uid  types.UID
	rv   string
	meta []byte // an ObjectMeta's protobuf
	// body is the rest: fields of the kind's message, or a JSON object.
	body  []byte
	proto bool
}

// recorder makes records of what the wire holds, in a buffer that it reuses.
type recorder struct {
	codec *codec
	buf   []byte
	om    metav1.ObjectMeta
}

const fieldManagedFields = 17 // of ObjectMeta

func (r *recorder) record(proto bool, raw []byte) (record, error) {
	if proto {
		return r.fromProtobuf(raw)
	}
	return r.fromJSON(raw)
}

func (r *recorder) fromProtobuf(msg []byte) (rec record, err error) {
	rec.proto = true
	r.buf = r.buf[:0]
	meta, err := findField(msg, fieldMetadata)
	if err != nil {
		return rec, fmt.Errorf("read %s: %w", r.codec.gvk.Kind, err)
	}
	for len(meta) > 0 {
		var f protoField
		if f, meta, err = nextField(meta); err != nil {
			return rec, fmt.Errorf("read metadata of %s: %w", r.codec.gvk.Kind, err)
		}
		if f.num != fieldManagedFields || r.codec.managed {
			r.buf = append(r.buf, f.all...)
		}
	}
	split := len(r.buf)
	for !r.codec.metadata && len(msg) > 0 {
		var f protoField
		if f, msg, err = nextField(msg); err != nil {
			return rec, fmt.Errorf("read %s: %w", r.codec.gvk.Kind, err)
		}
		if f.num == fieldMetadata {
			continue
		}
		if r.buf, err = r.codec.proto.append(r.buf, f.all); err != nil {
			return rec, fmt.Errorf("read %s: %w", r.codec.gvk.Kind, err)
		}
	}
	rec.meta, rec.body = r.buf[:split:split], r.buf[split:]
	return rec, rec.identify()
}

func (r *recorder) fromJSON(raw []byte) (rec record, err error) {
	r.om = metav1.ObjectMeta{}
	r.buf = append(r.buf[:0], '{')
	err = scan.Members(raw, func(name string, value []byte) (err error) {
		switch {
		case name == "metadata":
			return r.metadata(value)
		case name == "kind", name == "apiVersion", r.codec.metadata:
			return nil
		}
		var sub *jsonKeep
		if k := r.codec.json; k != nil {
			var ok bool
			if sub, ok = k.members[name]; !ok {
				return nil
			}
		}
		if len(r.buf) > 1 {
			r.buf = append(r.buf, ',')
		}
		r.buf = append(appendQuoted(r.buf, name), ':')
		r.buf, err = sub.append(r.buf, value)
		return err
	})
	if err != nil {
		return rec, fmt.Errorf("read %s: %w", r.codec.gvk.Kind, err)
	}
	r.buf = append(r.buf, '}')
	split := len(r.buf)
	if split == 2 {
		r.buf, split = r.buf[:0], 0
	}
	meta, err := r.om.Marshal()
	if err != nil {
		return rec, fmt.Errorf("read metadata of %s: %w", r.codec.gvk.Kind, err)
	}
	r.buf = append(r.buf, meta...)
	rec.body, rec.meta = r.buf[:split:split], r.buf[split:]
	rec.key = Key{r.om.Namespace, r.om.Name}
	rec.uid, rec.rv = r.om.UID, r.om.ResourceVersion
	return rec, nil
}

// metadata decodes an object's metadata. managedFields, which are most of it,
// are cut off before.
func (r *recorder) metadata(value []byte) error {
	if !r.codec.managed {
		var err error
		if value, err = withoutManagedFields.append(nil, value); err != nil {
			return err
		}
	}
	return json.Unmarshal(value, &r.om, decodeOptions)
}

var withoutManagedFields = &jsonKeep{members: map[string]*jsonKeep{
	"name": nil, "generateName": nil, "namespace": nil, "uid": nil, "resourceVersion": nil, "generation": nil,
	"creationTimestamp": nil, "deletionTimestamp": nil, "deletionGracePeriodSeconds": nil,
	"labels": nil, "annotations": nil, "ownerReferences": nil, "finalizers": nil, "selfLink": nil,
}}

// identify reads key, uid and resource version from the metadata.
func (rec *record) identify() (err error) {
	meta := rec.meta
	for len(meta) > 0 {
		var f protoField
		if f, meta, err = nextField(meta); err != nil {
			return fmt.Errorf("read metadata: %w", err)
		}
		if f.wire != wireBytes {
			continue // generation, or a field that is malformed: decoding will say so
		}
		switch f.num {
		case 1:
			rec.key.Name = string(f.val)
		case 3:
			rec.key.Namespace = string(f.val)
		case 5:
			rec.uid = types.UID(f.val)
		case 6:
			rec.rv = string(f.val)
		}
	}
	return nil
}

// bookmark reads a bookmark's resource version and annotations.
func (r *recorder) bookmark(proto bool, raw []byte) (rv string, annotations map[string]string, err error) {
	var om metav1.ObjectMeta
	if proto {
		meta, err := findField(raw, fieldMetadata)
		if err == nil {
			err = om.Unmarshal(meta)
		}
		if err != nil {
			return "", nil, fmt.Errorf("read bookmark: %w", err)
		}
	} else {
		var o struct {
			Metadata *metav1.ObjectMeta `json:"metadata"`
		}
		o.Metadata = &om
		if err := json.Unmarshal(raw, &o, decodeOptions); err != nil {
			return "", nil, fmt.Errorf("read bookmark: %w", err)
		}
	}
	return om.ResourceVersion, om.Annotations, nil
}
