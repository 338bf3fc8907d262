package wire

import (
	"errors"
	"math/rand"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/kube/internal/wire/wiretest"
)

func TestAccept(t *testing.T) {
	metadata := mustCodec[corev1.Pod](t, true).Metadata()
	for _, tc := range []struct {
		name  string
		codec *Codec
		shape Shape
		want  string
	}{
		{"Pod", mustCodec[corev1.Pod](t, true), OneObject, TypeProtobuf + "," + TypeJSON},
		{"Pods", mustCodec[corev1.Pod](t, true), AList, TypeProtobuf + "," + TypeJSON},
		{"watch of Pods", mustCodec[corev1.Pod](t, true), AWatch, TypeProtobuf + ";stream=watch," + TypeJSON},
		{"custom kind", mustCodec[widget](t, false), AList, TypeJSON},
		{"watch of a custom kind", mustCodec[widget](t, false), AWatch, TypeJSON},
		{"metadata", metadata, OneObject, TypeProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
			TypeJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + TypeJSON},
		{"list of metadata", metadata, AList, TypeProtobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
			TypeJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," + TypeJSON},
		{"watch of metadata", metadata, AWatch, TypeProtobuf + ";stream=watch;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
			TypeJSON + ";stream=watch;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + TypeJSON},
	} {
		if got := tc.codec.Accept(tc.shape); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// Servers and proxies may write a Content-Type as they like.
func TestContentTypes(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	msg := wiretest.Envelope("Pod", marshal(t, pod))
	body := marshalJSON(t, pod)
	codec := mustCodec[corev1.Pod](t, true)
	for contentType, answer := range map[string][]byte{
		TypeProtobuf: msg, TypeProtobuf + ";stream=watch": msg, "Application/Vnd.Kubernetes.Protobuf ; a=b": msg,
		TypeJSON: body, "application/JSON; charset=utf-8": body, "": body,
	} {
		got := new(corev1.Pod)
		raw, err := Unwrap(contentType, answer)
		if err == nil {
			err = codec.Decode(raw, got)
		}
		if err != nil || got.Name != "a" || got.Kind != "Pod" {
			t.Errorf("%q: %v, %v", contentType, got, err)
		}
	}
	for _, contentType := range []string{"text/html", "application/jsonp", "application/vnd.kubernetes.protobuffer"} {
		if _, err := Unwrap(contentType, body); !errors.Is(err, ErrAnswer) {
			t.Errorf("%q: %v", contentType, err)
		}
	}
}

// A type of k8s.io/api that is used as a view is read from protobuf too.
func TestWholeTypeAsView(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	fill := filler(seed)
	whole := reflect.TypeFor[corev1.Pod]()
	pods := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	c, err := NewCodec(whole, Options{GVK: pods, View: true, Generated: whole})
	if err != nil || c.whole == nil {
		t.Fatalf("codec of %v, %v", c.whole, err)
	}
	for range fuzzedPods {
		var pod corev1.Pod
		fill.Fill(&pod)
		msg := marshal(t, &pod)
		r, err := NewRecorder(c).Record(Raw{msg, true})
		if err != nil {
			t.Fatal(err)
		}
		kept, direct, want := new(corev1.Pod), new(corev1.Pod), new(corev1.Pod)
		if err := errors.Join(r.Decode(c, kept), c.Decode(Raw{msg, true}, direct), want.Unmarshal(msg)); err != nil {
			t.Fatal(err)
		}
		want.Kind, want.APIVersion = "Pod", "v1"
		for _, got := range []*corev1.Pod{direct, kept} {
			if got == kept {
				want.ManagedFields = nil
			}
			if !equality.Semantic.DeepEqual(got, want) {
				t.Fatalf("got\n%s\nwant\n%s", marshalJSON(t, got), marshalJSON(t, want))
			}
		}
	}
}
