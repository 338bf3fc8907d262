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
	// wire is the metadata as the server sent it, managedFields included.
	wire []byte
	// bare: no more than the identity is known, because the object cannot be read.
	bare bool
}

// recorder makes records of what the wire holds, in a buffer that it reuses.
type recorder struct {
	codec *codec
	buf   []byte
	om    metav1.ObjectMeta
	wire  []byte // the metadata of the latest object in JSON
	named bool   // the latest object said of which kind it is
}

const fieldManagedFields = 17 // of ObjectMeta

// record makes a record of an object. An error that wraps errAnswer says that the
// object is of another kind.
func (r *recorder) record(proto bool, raw []byte) (record, error) {
	r.named = false
	if proto {
		return r.fromProtobuf(raw)
	}
	return r.fromJSON(raw)
}

// identity makes a record of no more than the identity of an object of which
// record has failed. It reports whether the object's key is known.
func (r *recorder) identity(proto bool, raw []byte) (record, bool) {
	var rec record
	var known bool
	if proto {
		meta, err := findField(raw, fieldMetadata)
		rec.meta = meta
		// Servers write the fields in their order: after the version there is
		// nothing that the key depends on.
		known = err == nil && (rec.identify() == nil || rec.rv != "")
	} else {
		known = rec.identifyJSON(raw)
	}
	om := metav1.ObjectMeta{Namespace: rec.key.Namespace, Name: rec.key.Name, UID: rec.uid, ResourceVersion: rec.rv}
	meta, err := om.Marshal()
	rec.meta, rec.proto, rec.bare = meta, proto, true
	return rec, known && err == nil && rec.key.Name != ""
}

// identifyJSON reads key, uid and resource version of an object, and reports
// whether the key could be read.
func (rec *record) identifyJSON(raw []byte) bool {
	var metadata []byte
	err := scan.Members(raw, func(name string, value []byte) error {
		if name == "metadata" {
			metadata = value
		}
		return nil
	})
	if err != nil || len(metadata) == 0 || metadata[0] != '{' {
		return false
	}
	known := true
	err = scan.Members(metadata, func(name string, value []byte) error {
		text, isText := "", len(value) > 0 && value[0] == '"'
		if isText {
			text = scan.Unquote(value)
		}
		switch name {
		case "name":
			rec.key.Name, known = text, known && isText
		case "namespace":
			rec.key.Namespace, known = text, known && isText
		case "uid":
			rec.uid = types.UID(text)
		case "resourceVersion":
			rec.rv = text
		}
		return nil
	})
	return known && err == nil
}

// checkKind refuses an object of another kind. Objects in the lists of built-in
// kinds do not say of which they are.
func (r *recorder) checkKind(value []byte) error {
	if len(value) <= 2 || value[0] != '"' || r.codec.gvk.Kind == "" {
		return nil
	}
	is := value[1 : len(value)-1]
	r.named = string(is) == r.codec.gvk.Kind || r.codec.metadata && string(is) == "PartialObjectMetadata"
	if !r.named {
		return fmt.Errorf("%w: a %s", errAnswer, is)
	}
	return nil
}

func (r *recorder) fromProtobuf(msg []byte) (rec record, err error) {
	rec.proto = true
	r.buf = r.buf[:0]
	meta, err := findField(msg, fieldMetadata)
	if err != nil {
		return rec, fmt.Errorf("read %s: %w", r.codec.gvk.Kind, err)
	}
	rec.wire = meta
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
	r.om, r.wire = metav1.ObjectMeta{}, nil
	r.buf = append(r.buf[:0], '{')
	err = scan.Members(raw, func(name string, value []byte) (err error) {
		switch {
		case name == "metadata":
			return r.metadata(value)
		case name == "kind":
			return r.checkKind(value)
		case name == "apiVersion", r.codec.metadata:
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
	rec.uid, rec.rv, rec.wire = r.om.UID, r.om.ResourceVersion, r.wire
	return rec, nil
}

// metadata decodes an object's metadata. managedFields, which are most of it,
// are cut off before.
func (r *recorder) metadata(value []byte) error {
	r.wire = value
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
