package kube

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// How the played API server encodes what it has.

func (s *apiServer) contentType(r *http.Request) string {
	if strings.Contains(r.URL.Path, "/configmaps") && !s.jsonOnly && strings.Contains(r.Header.Get("Accept"), typeProtobuf) {
		return typeProtobuf
	}
	return typeJSON
}

// object builds what is asked for: a ConfigMap, a widget or its metadata.
func (o modelObject) object(r *http.Request) message {
	om := o.extra
	om.Namespace, om.Name, om.UID, om.ResourceVersion, om.Labels = o.key.Namespace, o.key.Name, o.uid, strconv.FormatInt(o.rv, 10), o.labels
	if o.owner != "" {
		om.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Owner", Name: "o", UID: o.owner}}
	}
	if o.key.Name != "" {
		om.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone", Operation: "Update", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}}
	}
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: om}
	}
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: om, Data: map[string]string{"note": o.note}}
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

func inEnvelope(kind string, msg []byte) []byte {
	body, err := encodeEnvelope(GVK{Version: "v1", Kind: kind}, msg)
	if err != nil {
		panic(err)
	}
	return body
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
		list = bytes.Replace(list, []byte(`"ConfigMapList","apiVersion":"v1"`), []byte(`"WidgetList","apiVersion":"example.com/v1"`), 1)
	}
	return answer(200, typeJSON, list)
}

// protobufList is a list of items that are encoded already.
func protobufList(meta metav1.ListMeta, items ...[]byte) []byte {
	head, err := meta.Marshal()
	if err != nil {
		panic(err)
	}
	msg := appendBytes(nil, fieldMetadata, head)
	for _, item := range items {
		msg = appendBytes(msg, fieldItems, item)
	}
	return inEnvelope("ConfigMapList", msg)
}

func appendBytes(dst []byte, num int, val []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(num)<<3|wireBytes)
	dst = binary.AppendUvarint(dst, uint64(len(val)))
	return append(dst, val...)
}

func jsonList(meta metav1.ListMeta, items ...[]byte) []byte {
	list := struct {
		Kind     string            `json:"kind"`
		Version  string            `json:"apiVersion"`
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}{"ConfigMapList", "v1", meta, []json.RawMessage{}}
	for _, item := range items {
		var is metav1.TypeMeta
		if json.Unmarshal(item, &is) == nil && is.Kind != "" && is.APIVersion != "" {
			list.Kind, list.Version = is.Kind+"List", is.APIVersion
		}
		list.Items = append(list.Items, item)
	}
	body, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return body
}

func (s *apiServer) encodeEvent(r *http.Request, kind string, o modelObject) []byte {
	if s.contentType(r) == typeProtobuf {
		return protobufEvent(kind, inEnvelope("ConfigMap", o.protobuf(r)))
	}
	return jsonEvent(kind, o.json(r))
}

// protobufEvent is a frame of a watch.
func protobufEvent(kind string, object []byte) []byte {
	ev := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object}}
	msg, err := ev.Marshal()
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...)
}

func jsonEvent(kind string, object []byte) []byte {
	return []byte(`{"type":"` + kind + `","object":` + string(object) + "}")
}

// errorEvent is what ends a watch that the server cannot go on with.
func errorEvent(proto bool, status metav1.Status) []byte {
	status.Kind, status.APIVersion = "Status", "v1"
	if proto {
		msg, err := status.Marshal()
		if err != nil {
			panic(err)
		}
		return protobufEvent(eventError, inEnvelope("Status", msg))
	}
	body, err := json.Marshal(&status)
	if err != nil {
		panic(err)
	}
	return jsonEvent(eventError, body)
}
