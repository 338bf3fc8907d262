package kube

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/kube/internal/wire"
	"github.com/pintle-go/pintle/kube/internal/wire/wiretest"
)

// The functions below encode the objects of the played API server.

const (
	typeJSON     = wire.TypeJSON
	typeProtobuf = wire.TypeProtobuf

	eventAdded    = wire.Added
	eventModified = wire.Modified
	eventDeleted  = wire.Deleted
	eventBookmark = wire.Bookmark
	eventError    = "ERROR"
)

var (
	inEnvelope    = wiretest.Envelope
	appendBytes   = wiretest.AppendField
	protobufList  = wiretest.ProtobufList
	jsonList      = wiretest.JSONList
	protobufEvent = wiretest.ProtobufEvent
	jsonEvent     = wiretest.JSONEvent
	errorEvent    = wiretest.ErrorEvent
)

// message is implemented by types with generated protobuf.
type message interface{ Marshal() ([]byte, error) }

func marshal(t testing.TB, m message) []byte {
	t.Helper()
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recordOf returns the record of an object in protobuf.
func recordOf(t rapid.TB, c *wire.Codec, m message) wire.Record {
	t.Helper()
	msg, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := wire.NewRecorder(c).Record(wire.Raw{Bytes: msg, Protobuf: true})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// metadataCodec is for the metadata of objects of any kind.
func metadataCodec() *wire.Codec { return new(wire.Codec).Metadata() }

func (s *apiServer) contentType(r *http.Request) string {
	if strings.Contains(r.URL.Path, "/configmaps") && !s.jsonOnly &&
		strings.Contains(r.Header.Get("Accept"), typeProtobuf) {
		return typeProtobuf
	}
	return typeJSON
}

// object builds the requested object: a ConfigMap, a widget or its metadata.
func (o modelObject) object(r *http.Request) message {
	om := o.extra
	om.Namespace, om.Name, om.UID, om.ResourceVersion, om.Labels = o.key.Namespace, o.key.Name, o.uid, strconv.FormatInt(
		o.rv, 10,
	), o.labels
	if o.owner != "" {
		om.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Owner", Name: "o", UID: o.owner}}
	}
	if o.key.Name != "" {
		om.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone", Operation: "Update",
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}}
	}
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata",
			APIVersion: "meta.k8s.io/v1"}, ObjectMeta: om}
	}
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: om,
		Data: map[string]string{"note": o.note}}
}

func (o modelObject) json(r *http.Request) []byte {
	var v any = o.object(r)
	if cm, ok := v.(*corev1.ConfigMap); ok && strings.Contains(r.URL.Path, "/widgets") {
		w := &widget{Object: Object{metav1.TypeMeta{Kind: "Widget", APIVersion: "example.com/v1"}, cm.ObjectMeta}}
		w.Spec.Note = o.note
		v = w
	}
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return body
}

func (o modelObject) protobuf(r *http.Request) []byte {
	msg, err := o.object(r).Marshal()
	if err != nil {
		panic(err)
	}
	return msg
}

func (s *apiServer) encode(r *http.Request, o modelObject) *http.Response {
	if s.contentType(r) == typeProtobuf {
		return answer(200, typeProtobuf, inEnvelope("ConfigMap", o.protobuf(r)))
	}
	return answer(200, typeJSON, o.json(r))
}

func (s *apiServer) encodeList(r *http.Request, rv int64, next string, items []modelObject) *http.Response {
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatInt(rv, 10), Continue: next}
	if s.contentType(r) == typeProtobuf {
		var raw [][]byte
		for _, o := range items {
			raw = append(raw, o.protobuf(r))
		}
		return answer(200, typeProtobuf, protobufList(meta, raw...))
	}
	var raw [][]byte
	for _, o := range items {
		raw = append(raw, o.json(r))
	}
	list := jsonList(meta, raw...)
	if len(items) == 0 && strings.Contains(r.URL.Path, "/widgets") {
		list = bytes.Replace(list, []byte(`"ConfigMapList","apiVersion":"v1"`),
			[]byte(`"WidgetList","apiVersion":"example.com/v1"`), 1)
	}
	return answer(200, typeJSON, list)
}

func (s *apiServer) encodeEvent(r *http.Request, kind string, o modelObject) []byte {
	if s.contentType(r) == typeProtobuf {
		return protobufEvent(kind, inEnvelope("ConfigMap", o.protobuf(r)))
	}
	return jsonEvent(kind, o.json(r))
}
