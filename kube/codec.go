package kube

import (
	stdjson "encoding/json"
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

// codec turns the objects of a kind from the wire into records, and records
// and answers into a Go type. It is built once for a handle and never changes.
type codec struct {
	gvk        GVK
	apiVersion string
	// managed keeps managedFields in records.
	managed bool
	// metadata: the type has nothing but metadata, and the server is asked for
	// no more.
	metadata bool
	// view: the type names part of the kind.
	view bool
	// builtin: the kind is Kubernetes' own.
	builtin bool
	// whole is the generated type of the kind's protobuf; nil: JSON only.
	whole   reflect.Type
	project projection // from whole to a view; nil: the type is whole
	proto   *protoKeep // what a record keeps of a message besides its metadata
	json    *jsonKeep  // what a record keeps of a JSON object besides its metadata
	status  int        // the number of the status in protobuf; 0: the kind has none
	// read are the options with which JSON is decoded into the type.
	read json.Options
}

// message is what generated protobuf types have.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func newCodec(t reflect.Type, kind Kind, view bool) (*codec, error) {
	c := &codec{gvk: kind.GVK, apiVersion: kind.GroupVersion().String(), view: view, read: decodeOptions}
	c.builtin = isMessage(t) || kind.whole != nil && isMessage(kind.whole)
	sample := reflect.New(t).Interface().(object)
	if _, ok := sample.(runtime.Unstructured); ok {
		if view {
			return nil, fmt.Errorf("%w: %s holds every field, it is no view", ErrKind, t)
		}
		return c, nil
	}
	if objectMeta(sample) == nil {
		return nil, fmt.Errorf("%w: %s does not embed metav1.ObjectMeta", ErrKind, t)
	}
	if view && onlyMetadata(t) {
		c.metadata = true
		return c, nil
	}
	if err := jsonfields.Check(t); err != nil {
		return nil, fmt.Errorf("%w: %s cannot be written and read back: %w", ErrKind, t, err)
	}
	c.read = jsonfields.ReadOptions(t)
	c.json = keepJSON(t, make(map[reflect.Type]*jsonKeep))
	switch {
	case !view && isMessage(t):
		// Only the generated types of k8s.io/api: a struct that embeds
		// ObjectMeta has its Unmarshal promoted and would decode an object
		// into its metadata.
		c.whole = t
	case view && kind.whole != nil && isMessage(kind.whole):
		// A view that protobuf cannot serve is read as JSON.
		if p, keep, err := projectStruct(t, kind.whole, setApart); err == nil {
			c.whole, c.project, c.proto = kind.whole, p, keep
		}
	}
	if c.whole != nil {
		if f, ok := c.whole.FieldByName("Status"); ok {
			c.status, _ = protoNumber(f.Tag) // without one nothing is taken for the status
		}
	}
	return c, nil
}

// isMessage reports that t is a type of k8s.io/api with generated protobuf.
func isMessage(t reflect.Type) bool {
	_, builtin := builtinKind(t)
	return builtin && reflect.PointerTo(t).Implements(reflect.TypeFor[message]())
}

// onlyMetadata reports that t names nothing but TypeMeta and ObjectMeta.
func onlyMetadata(t reflect.Type) bool {
	for f := range jsonFields(t) {
		if !setApart[f.name] {
			return false
		}
	}
	return true
}

// accept is the Accept header for objects, lists and, with suffix
// ";stream=watch", watches. The last resort is plain JSON, which every server has.
func (c *codec) accept(suffix string) string {
	const partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	const partialList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	switch {
	case c.metadata && suffix == acceptList:
		return typeProtobuf + partialList + "," + typeJSON + partialList + "," + typeJSON
	case c.metadata && suffix == acceptWatch:
		return typeProtobuf + suffix + partial + "," + typeJSON + suffix + partial + "," + typeJSON
	case c.metadata:
		return typeProtobuf + partial + "," + typeJSON + partial + "," + typeJSON
	case suffix == acceptList:
		suffix = ""
	}
	if c.whole != nil {
		return typeProtobuf + suffix + "," + typeJSON
	}
	return typeJSON
}

const (
	acceptObject = ""
	acceptList   = "list"
	acceptWatch  = ";stream=watch"
)

func isProtobuf(contentType string) bool {
	return strings.HasPrefix(contentType, typeProtobuf)
}

// checkType refuses an answer that is neither protobuf nor JSON, as a proxy's page
// is.
func checkType(contentType string) error {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case typeProtobuf, typeJSON, "":
		return nil
	}
	return fmt.Errorf("%w: of type %q, which is neither JSON nor protobuf: does a proxy answer in the server's place?",
		errAnswer, contentType)
}

// checkList refuses a list of another kind. It reports whether the list's name is
// the kind's own: a custom kind may have a name of its own for its lists, and then
// only the items show that they are of the kind.
func (c *codec) checkList(apiVersion, kind string) (sure bool, err error) {
	if c.metadata && apiVersion == "meta.k8s.io/v1" && kind == "PartialObjectMetadataList" {
		return true, nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	sure = kind == c.gvk.Kind+"List"
	if err != nil || gv.Group != c.gvk.Group || !sure && (c.builtin || !strings.HasSuffix(kind, "List")) {
		return false, fmt.Errorf("read list: %w: a %s of %s", errAnswer, kind, apiVersion)
	}
	return sure, nil
}

// decode decodes the whole object that an answer holds.
func (c *codec) decode(contentType string, body []byte, into object) error {
	if err := checkType(contentType); err != nil {
		return fmt.Errorf("decode %s: %w", c.gvk.Kind, err)
	}
	if !isProtobuf(contentType) {
		if err := json.Unmarshal(body, into, c.read); err != nil {
			return fmt.Errorf("decode %s: %w", c.gvk.Kind, err)
		}
		c.stamp(into)
		return nil
	}
	msg, ok := cutEnvelope(body)
	if !ok {
		return fmt.Errorf("decode %s: %w: no Kubernetes envelope", c.gvk.Kind, errProtobuf)
	}
	return c.decodeMessage(msg, into)
}

// decodeItem decodes an item of a list.
func (c *codec) decodeItem(proto bool, item []byte, into object) error {
	if proto {
		return c.decodeMessage(item, into)
	}
	return c.decode(typeJSON, item, into)
}

func (c *codec) decodeMessage(msg []byte, into object) error {
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
	c.stamp(into)
	return nil
}

// unmarshal decodes a message into a whole type or projects it onto a view.
func (c *codec) unmarshal(msg []byte, into object) error {
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

// decodeRecord decodes what was kept of an object. If it fails, into still has
// its metadata.
func (c *codec) decodeRecord(meta, body []byte, proto bool, into object) (err error) {
	if u, ok := into.(runtime.Unstructured); ok {
		return c.decodeUnstructured(meta, body, u)
	}
	if proto {
		err = c.unmarshal(body, into)
	} else if len(body) > 0 {
		err = json.Unmarshal(body, into, c.read)
	}
	if merr := objectMeta(into).Unmarshal(meta); err == nil {
		err = merr
	}
	c.stamp(into)
	if err != nil {
		return fmt.Errorf("decode %s: %w", c.gvk.Kind, err)
	}
	return nil
}

func (c *codec) decodeUnstructured(meta, body []byte, into runtime.Unstructured) error {
	var om metav1.ObjectMeta
	if err := om.Unmarshal(meta); err != nil {
		return fmt.Errorf("decode metadata of %s: %w", c.gvk.Kind, err)
	}
	content := make(map[string]any)
	var err error
	if len(body) > 0 {
		err = kjson.Unmarshal(body, &content) // integers become int64, as unstructured's accessors need
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

// stamp sets apiVersion and kind, which protobuf does not carry.
func (c *codec) stamp(into object) {
	if tm, ok := into.GetObjectKind().(*metav1.TypeMeta); ok {
		tm.APIVersion, tm.Kind = c.apiVersion, c.gvk.Kind
		return
	}
	into.GetObjectKind().SetGroupVersionKind(c.gvk)
}

// encode encodes an object for create and update, with all that it holds.
func (c *codec) encode(o object) (body []byte, contentType string, err error) {
	c.stamp(o)
	if c.whole != nil && c.project == nil {
		msg, err := o.(message).Marshal()
		if err == nil {
			body, err = encodeEnvelope(c.gvk, msg)
		}
		if err != nil {
			return nil, "", fmt.Errorf("encode %s: %w", c.gvk.Kind, err)
		}
		return body, typeProtobuf, nil
	}
	body, err = encodeJSON(o)
	if err != nil {
		return nil, "", fmt.Errorf("encode %s: %w", c.gvk.Kind, err)
	}
	return body, typeJSON, nil
}

// objectMeta returns the metadata that o embeds, or nil if it has accessors of
// its own.
func objectMeta(o object) *metav1.ObjectMeta {
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

func appendQuoted(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // invalid UTF-8 becomes U+FFFD, which is all that can go wrong
	return dst
}

// encodeJSON encodes as every Go client does: what encoding/json makes of a
// type's tags is what its authors tested with.
func encodeJSON(v any) ([]byte, error) { return stdjson.Marshal(v) }
