// Package wiretest encodes answers as the API server does, for tests that play it. It
// shares no code with package wire, which reads them.
package wiretest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var magic = []byte("k8s\x00")

// Envelope puts an object's protobuf message into the envelope. The object is of
// version v1.
func Envelope(kind string, msg []byte) []byte {
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: msg}
	return append(bytes.Clone(magic), must(unknown.Marshal())...)
}

// Message returns the message in an envelope. It reports whether body is an envelope.
func Message(body []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(body, magic)
	var unknown runtime.Unknown
	if !ok || unknown.Unmarshal(rest) != nil {
		return nil, false
	}
	return unknown.Raw, true
}

// AppendField appends a length-delimited field to a message.
func AppendField(msg []byte, num int, val []byte) []byte {
	msg = binary.AppendUvarint(msg, uint64(num)<<3|2)
	msg = binary.AppendUvarint(msg, uint64(len(val)))
	return append(msg, val...)
}

// ProtobufList is a ConfigMapList of items that are messages.
func ProtobufList(meta metav1.ListMeta, items ...[]byte) []byte {
	msg := AppendField(nil, 1, must(meta.Marshal()))
	for _, item := range items {
		msg = AppendField(msg, 2, item)
	}
	return Envelope("ConfigMapList", msg)
}

// JSONList is a list of items in JSON. It is a list of their kind or, if they do not name
// their kind, of ConfigMaps.
func JSONList(meta metav1.ListMeta, items ...[]byte) []byte {
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
	return must(json.Marshal(list))
}

// ProtobufEvent is a frame of a watch. The object is in its envelope.
func ProtobufEvent(kind string, object []byte) []byte {
	ev := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object}}
	msg := must(ev.Marshal())
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...)
}

// JSONEvent is an event of a watch.
func JSONEvent(kind string, object []byte) []byte {
	return fmt.Appendf(nil, `{"type":"%s","object":%s}`, kind, object)
}

// ErrorEvent is the event of a watch that the server cannot go on with.
func ErrorEvent(protobuf bool, status metav1.Status) []byte {
	status.Kind, status.APIVersion = "Status", "v1"
	if protobuf {
		return ProtobufEvent("ERROR", Envelope("Status", must(status.Marshal())))
	}
	return JSONEvent("ERROR", must(json.Marshal(&status)))
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
