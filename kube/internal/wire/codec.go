package wire

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pintle-go/pintle/internal/jsonfields"
)

// Object is the interface of a pointer to a Go type that objects are decoded into.
type Object interface {
	metav1.Object
	GetObjectKind() schema.ObjectKind
}

// Codec decodes and encodes the objects of a kind, for a Go type. It is never changed.
type Codec struct {
	gvk        schema.GroupVersionKind
	apiVersion string
	// metadata: the type has only metadata, and the server is asked for nothing else.
	metadata bool
	// builtin: the kind is Kubernetes' own.
	builtin bool
	// whole is the generated type that protobuf is decoded into. Nil: the codec reads
	// only JSON.
	whole   reflect.Type
	project projection // from whole to a view; nil: the type is whole
	proto   *protoKeep // the fields of a message that a record keeps besides the metadata
	json    *jsonKeep  // the members of a JSON object that a record keeps besides the metadata
	status  int        // the number of the status in protobuf; 0: the kind has none
	// read holds the options for decoding JSON into the type.
	read json.Options
	room []*roomy // the lists of the type for which decoding makes room
}

// Options tells which objects a [Codec] is for.
type Options struct {
	GVK schema.GroupVersionKind
	// View: the Go type has only some of the kind's fields.
	View bool
	// Generated is the type of k8s.io/api that has all fields of the kind. Nil: there is
	// no such type. No types but those of k8s.io/api may be given: a struct that embeds
	// ObjectMeta has its methods promoted, and its Unmarshal would decode an object into
	// its metadata.
	Generated reflect.Type
}

// decodeOptions make decoding as lenient as the API server's own encoder needs: strings
// may hold invalid UTF-8 that was stored before servers checked it.
var decodeOptions = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// message is implemented by types with generated protobuf.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// NewCodec returns a codec for objects of Go type t. A pointer to t must be an [Object].
func NewCodec(t reflect.Type, o Options) (*Codec, error) {
	c := &Codec{gvk: o.GVK, apiVersion: o.GVK.GroupVersion().String(), read: decodeOptions}
	generated := o.Generated
	if generated != nil && !reflect.PointerTo(generated).Implements(reflect.TypeFor[message]()) {
		generated = nil
	}
	c.builtin = generated != nil
	sample := reflect.New(t).Interface().(Object)
	if _, ok := sample.(runtime.Unstructured); ok {
		if o.View {
			return nil, fmt.Errorf("%s holds every field and cannot be a view", t)
		}
		return c, nil
	}
	if objectMeta(sample) == nil {
		return nil, fmt.Errorf("%s does not embed metav1.ObjectMeta", t)
	}
	if o.View && onlyMetadata(t) {
		c.metadata = true
		return c, nil
	}
	if err := jsonfields.Check(t); err != nil {
		return nil, fmt.Errorf("%s cannot be written and read back: %w", t, err)
	}
	c.read = jsonfields.ReadOptions(t)
	c.json = keepJSON(t, make(map[reflect.Type]*jsonKeep))
	if c.json != nil {
		c.room = roomyIn(t, nil)
	}
	switch {
	case generated == nil:
	case !o.View && t == generated:
		c.whole = t
	case o.View:
		// A view that cannot be filled from protobuf is read as JSON.
		if p, keep, err := projectStruct(t, generated, setApart); err == nil {
			c.whole, c.project, c.proto = generated, p, keep
		}
	}
	if c.whole != nil {
		if f, ok := c.whole.FieldByName("Status"); ok {
			c.status, _ = protoNumber(f.Tag) // without a number, no field counts as the status
		}
	}
	return c, nil
}

// OnlyMetadata reports that the codec reads the metadata of objects and nothing else.
func (c *Codec) OnlyMetadata() bool { return c.metadata }

// Metadata returns a codec for the metadata of objects of the same kind. It decodes into
// a metav1.PartialObjectMetadata.
func (c *Codec) Metadata() *Codec {
	return &Codec{gvk: c.gvk, apiVersion: c.apiVersion, builtin: c.builtin, metadata: true, read: decodeOptions}
}

// GVK returns the kind of the objects.
func (c *Codec) GVK() schema.GroupVersionKind { return c.gvk }

// APIVersion returns group and version of the objects, in the form of their apiVersion.
func (c *Codec) APIVersion() string { return c.apiVersion }

// onlyMetadata reports that t has no fields but TypeMeta and ObjectMeta.
func onlyMetadata(t reflect.Type) bool {
	for _, f := range jsonfields.Of(t) {
		if !setApart[f.Member] {
			return false
		}
	}
	return true
}

// checkList refuses a list of another kind. It reports whether the list's name is the
// usual one. A custom kind may have a name of its own for its lists. Then only the items
// show that they are of the kind.
func (c *Codec) checkList(apiVersion, kind string) (usual bool, err error) {
	if c.metadata && apiVersion == "meta.k8s.io/v1" && kind == "PartialObjectMetadataList" {
		return true, nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	usual = kind == c.gvk.Kind+"List"
	if err != nil || gv.Group != c.gvk.Group || !usual && (c.builtin || !strings.HasSuffix(kind, "List")) {
		return false, fmt.Errorf("read list: %w: a %s of %s", ErrAnswer, kind, apiVersion)
	}
	return usual, nil
}

// Decode decodes an object.
func (c *Codec) Decode(raw Raw, into Object) error {
	if raw.Protobuf {
		return c.decodeMessage(raw.Bytes, into)
	}
	if err := json.Unmarshal(raw.Bytes, into, c.read); err != nil {
		return fmt.Errorf("decode %s: %w", c.gvk.Kind, err)
	}
	c.Stamp(into)
	return nil
}

func (c *Codec) decodeMessage(msg []byte, into Object) error {
	if err := c.unmarshal(msg, into); err != nil {
		return fmt.Errorf("decode %s: %w", c.gvk.Kind, err)
	}
	if c.metadata || c.project != nil {
		meta, err := findField(msg, fieldMetadata)
		if err == nil {
			err = objectMeta(into).Unmarshal(meta)
		}
		if err != nil {
			return fmt.Errorf("decode metadata of %s: %w", c.gvk.Kind, err)
		}
	}
	c.Stamp(into)
	return nil
}

// unmarshal decodes a message into a whole type or projects it onto a view.
func (c *Codec) unmarshal(msg []byte, into Object) error {
	switch {
	case c.metadata:
		return nil
	case c.project == nil:
		return into.(message).Unmarshal(msg)
	}
	whole := reflect.New(c.whole)
	if err := whole.Interface().(message).Unmarshal(msg); err != nil {
		return err
	}
	c.project(reflect.ValueOf(into).Elem(), whole.Elem())
	return nil
}

// decodeKept decodes the kept parts of an object. If it fails, into still has its
// metadata.
func (c *Codec) decodeKept(meta []byte, body Raw, into Object) (err error) {
	if u, ok := into.(runtime.Unstructured); ok {
		return c.decodeUnstructured(meta, body.Bytes, u)
	}
	if body.Protobuf {
		err = c.unmarshal(body.Bytes, into)
	} else if len(body.Bytes) > 0 {
		err = c.decodeJSON(body.Bytes, into)
	}
	if merr := objectMeta(into).Unmarshal(meta); err == nil {
		err = merr
	}
	c.Stamp(into)
	if err != nil {
		return fmt.Errorf("decode %s: %w", c.gvk.Kind, err)
	}
	return nil
}

// decodeJSON decodes the body of an object into an object that is empty as a rule.
func (c *Codec) decodeJSON(body []byte, into Object) error {
	if len(c.room) == 0 || !reflect.ValueOf(into).Elem().IsZero() {
		return json.Unmarshal(body, into, c.read)
	}
	o := reflect.ValueOf(into).Elem()
	for _, list := range c.room {
		list.make(o, len(body))
	}
	err := json.Unmarshal(body, into, c.read)
	for _, list := range c.room {
		list.made(o, len(body))
	}
	return err
}

func (c *Codec) decodeUnstructured(meta, body []byte, into runtime.Unstructured) error {
	var om metav1.ObjectMeta
	if err := om.Unmarshal(meta); err != nil {
		return fmt.Errorf("decode metadata of %s: %w", c.gvk.Kind, err)
	}
	content := make(map[string]any)
	var err error
	if len(body) > 0 {
		err = kjson.Unmarshal(body, &content) // integers become int64, as unstructured's accessors require
	}
	metadata, merr := runtime.DefaultUnstructuredConverter.ToUnstructured(&om)
	if err == nil {
		err = merr
	}
	if om.CreationTimestamp.IsZero() {
		delete(metadata, "creationTimestamp")
	}
	content["metadata"] = metadata
	content["apiVersion"], content["kind"] = c.apiVersion, c.gvk.Kind
	into.SetUnstructuredContent(content)
	if err != nil {
		return fmt.Errorf("decode %s: %w", c.gvk.Kind, err)
	}
	return nil
}

// Stamp sets apiVersion and kind of an object, which protobuf does not carry.
func (c *Codec) Stamp(into Object) {
	if tm, ok := into.GetObjectKind().(*metav1.TypeMeta); ok {
		tm.APIVersion, tm.Kind = c.apiVersion, c.gvk.Kind
		return
	}
	into.GetObjectKind().SetGroupVersionKind(c.gvk)
}

// EncodeJSON encodes an object, or a part of one; see [jsonfields.Encode].
func EncodeJSON(v any) ([]byte, error) { return jsonfields.Encode(v) }

// Builtin reports whether the kind is Kubernetes' own, so that the server decodes objects as Go does.
func (c *Codec) Builtin() bool { return c.builtin }

// Encode encodes a whole object, for create and update. It stamps the object.
func (c *Codec) Encode(o Object) (body []byte, contentType string, err error) {
	c.Stamp(o)
	if c.whole != nil && c.project == nil {
		msg, err := o.(message).Marshal()
		if err == nil {
			body, err = encodeEnvelope(c.gvk, msg)
		}
		if err != nil {
			return nil, "", fmt.Errorf("encode %s: %w", c.gvk.Kind, err)
		}
		return body, TypeProtobuf, nil
	}
	if body, err = EncodeJSON(o); err != nil {
		return nil, "", fmt.Errorf("encode %s: %w", c.gvk.Kind, err)
	}
	return body, TypeJSON, nil
}

// objectMeta returns the metadata that o embeds, or nil if it has accessors of
// its own.
func objectMeta(o Object) *metav1.ObjectMeta {
	if a, ok := o.(metav1.ObjectMetaAccessor); ok {
		om, _ := a.GetObjectMeta().(*metav1.ObjectMeta)
		return om
	}
	// Some types have a GetObjectMeta of their own, such as cert-manager's issuers.
	v := reflect.ValueOf(o).Elem()
	if v.Kind() != reflect.Struct {
		return nil
	}
	field := v.FieldByName("ObjectMeta")
	if !field.CanAddr() {
		return nil
	}
	om, _ := field.Addr().Interface().(*metav1.ObjectMeta)
	return om
}
