package wire

import (
	"bytes"
	"fmt"
	"hash/fnv"

	"github.com/go-json-experiment/json"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/scan"
)

// Record is an object that was read and is still encoded, with its metadata apart. It is
// valid until its [Recorder] makes the next record.
type Record struct {
	Key             types.NamespacedName
	UID             types.UID
	ResourceVersion string
	// Named: the object itself names its kind. The objects in the lists of built-in kinds
	// do not.
	Named bool

	meta []byte // the protobuf of an ObjectMeta
	body Raw    // the rest: fields of the kind's message, or a JSON object
	// sent is the metadata as the server sent it, with managedFields.
	sent []byte
	// Bare: only the identity is known, because the object cannot be read.
	Bare bool
}

// Labels returns the labels for a selector. They are valid as long as the record is.
func (rec *Record) Labels() labels.Labels {
	return (&Entry{data: rec.meta, split: uint32(len(rec.meta))}).Labels()
}

// Decode decodes a record. If it fails, into still has its metadata.
func (rec *Record) Decode(c *Codec, into Object) error { return c.decodeKept(rec.meta, rec.body, into) }

// Clone returns a record that stays valid.
func (rec *Record) Clone() Record {
	is := *rec
	is.meta, is.body.Bytes, is.sent = bytes.Clone(rec.meta), bytes.Clone(rec.body.Bytes), bytes.Clone(rec.sent)
	return is
}

// Sum returns a checksum of the object.
func (rec *Record) Sum() uint64 {
	h := fnv.New64a()
	h.Write(rec.meta)
	h.Write(rec.body.Bytes)
	return h.Sum64()
}

// Recorder makes records, in a buffer that it reuses.
type Recorder struct {
	codec *Codec
	buf   []byte
	om    metav1.ObjectMeta
	sent  []byte // the metadata of the latest object in JSON
	named bool   // see Record.Named
}

// NewRecorder returns a recorder for the objects of a codec.
func NewRecorder(c *Codec) *Recorder { return &Recorder{codec: c} }

// Record makes a record of an object. Even if it fails, the record's [Record.Named] is
// valid. An error that wraps [ErrAnswer] means that the object is of another kind.
func (r *Recorder) Record(raw Raw) (rec Record, err error) {
	r.named = false
	if raw.Protobuf {
		rec, err = r.fromProtobuf(raw.Bytes)
	} else {
		rec, err = r.fromJSON(raw.Bytes)
	}
	rec.Named = r.named
	return rec, err
}

// Identify makes a record that has only the identity of an object. It is for objects of
// which no full record can be made. It reports whether the object's key is known.
func Identify(raw Raw) (Record, bool) {
	var rec Record
	var known bool
	if raw.Protobuf {
		meta, err := findField(raw.Bytes, fieldMetadata)
		rec.meta = meta
		// Servers write the fields in their order: the key stands before the version.
		known = err == nil && (rec.identify() == nil || rec.ResourceVersion != "")
	} else {
		known = rec.identifyJSON(raw.Bytes)
	}
	om := metav1.ObjectMeta{
		Namespace: rec.Key.Namespace, Name: rec.Key.Name, UID: rec.UID, ResourceVersion: rec.ResourceVersion,
	}
	meta, err := om.Marshal()
	rec.meta, rec.body.Protobuf, rec.Bare = meta, raw.Protobuf, true
	return rec, known && err == nil && rec.Key.Name != ""
}

// identifyJSON reads key, uid and resource version of an object, and reports
// whether the key could be read.
func (rec *Record) identifyJSON(raw []byte) bool {
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
			rec.Key.Name, known = text, known && isText
		case "namespace":
			rec.Key.Namespace, known = text, known && isText
		case "uid":
			rec.UID = types.UID(text)
		case "resourceVersion":
			rec.ResourceVersion = text
		}
		return nil
	})
	return known && err == nil
}

// checkKind refuses an object of another kind. Objects in the lists of built-in kinds do
// not name their kind.
func (r *Recorder) checkKind(value []byte) error {
	if len(value) <= 2 || value[0] != '"' || r.codec.gvk.Kind == "" {
		return nil
	}
	is := value[1 : len(value)-1]
	r.named = string(is) == r.codec.gvk.Kind || r.codec.metadata && string(is) == "PartialObjectMetadata"
	if !r.named {
		return fmt.Errorf("%w: a %s", ErrAnswer, is)
	}
	return nil
}

func (r *Recorder) fromProtobuf(msg []byte) (rec Record, err error) {
	rec.body.Protobuf = true
	r.buf = r.buf[:0]
	meta, err := findField(msg, fieldMetadata)
	if err != nil {
		return rec, fmt.Errorf("read %s: %w", r.codec.gvk.Kind, err)
	}
	rec.sent = meta
	for len(meta) > 0 {
		var f protoField
		if f, meta, err = nextField(meta); err != nil {
			return rec, fmt.Errorf("read metadata of %s: %w", r.codec.gvk.Kind, err)
		}
		if f.num != fieldManagedFields {
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
	rec.meta, rec.body.Bytes = r.buf[:split:split], r.buf[split:]
	return rec, rec.identify()
}

func (r *Recorder) fromJSON(raw []byte) (rec Record, err error) {
	r.om, r.sent = metav1.ObjectMeta{}, nil
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
	rec.body.Bytes, rec.meta = r.buf[:split:split], r.buf[split:]
	rec.Key = types.NamespacedName{Namespace: r.om.Namespace, Name: r.om.Name}
	rec.UID, rec.ResourceVersion, rec.sent = r.om.UID, r.om.ResourceVersion, r.sent
	return rec, nil
}

// metadata decodes an object's metadata. It first cuts off managedFields, which are most
// of the metadata.
func (r *Recorder) metadata(value []byte) error {
	r.sent = value
	kept, err := withoutManagedFields.append(nil, value)
	if err != nil {
		return err
	}
	return json.Unmarshal(kept, &r.om, decodeOptions)
}

var withoutManagedFields = &jsonKeep{members: map[string]*jsonKeep{
	"name": nil, "generateName": nil, "namespace": nil, "uid": nil, "resourceVersion": nil, "generation": nil,
	"creationTimestamp": nil, "deletionTimestamp": nil, "deletionGracePeriodSeconds": nil,
	"labels": nil, "annotations": nil, "ownerReferences": nil, "finalizers": nil, "selfLink": nil,
}}

// identify reads key, uid and resource version from the metadata.
func (rec *Record) identify() (err error) {
	meta := rec.meta
	for len(meta) > 0 {
		var f protoField
		if f, meta, err = nextField(meta); err != nil {
			return fmt.Errorf("read metadata: %w", err)
		}
		if f.wire != wireBytes {
			continue // generation, or a malformed field: decoding will report the error
		}
		switch f.num {
		case fieldName:
			rec.Key.Name = string(f.val)
		case fieldNamespace:
			rec.Key.Namespace = string(f.val)
		case fieldUID:
			rec.UID = types.UID(f.val)
		case fieldResourceVersion:
			rec.ResourceVersion = string(f.val)
		}
	}
	return nil
}

// ReadBookmark reads the object of a bookmark: its resource version, and whether the
// bookmark is the one that ends the initial events of a streaming list.
func ReadBookmark(raw Raw) (rv string, endsInitial bool, err error) {
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if raw.Protobuf {
		var meta []byte
		if meta, err = findField(raw.Bytes, fieldMetadata); err == nil {
			err = o.Metadata.Unmarshal(meta)
		}
	} else {
		err = json.Unmarshal(raw.Bytes, &o, decodeOptions)
	}
	if err != nil {
		return "", false, fmt.Errorf("read bookmark: %w", err)
	}
	return o.Metadata.ResourceVersion, o.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true", nil
}
