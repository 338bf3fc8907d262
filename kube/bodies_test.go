package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube/internal/intent"
)

// The body of a large object is not remembered, and that of a small one leaves its buffer.
func TestBodiesThatAreRemembered(t *testing.T) {
	s := newAPIServer()
	h := For[corev1.ConfigMap](s.client(t)).In("default").handle
	for name, size := range map[string]int{"small": 1 << 10, "large": maxBody + 1} {
		o := &corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", size)}}
		o.Name, o.Namespace = name, "default"
		body := new(encoded)
		if _, ok := h.wanted(o, intent.Spec, body); !ok || len(body.text) < size {
			t.Fatalf("%s: the body has %d bytes", name, len(body.text))
		}
		body.release()
		if small := size < maxBody; cap(body.text) > 0 || cap(body.buf) > maxBody || small != (cap(body.buf) > size) {
			t.Errorf("%s: %d and %d bytes are remembered", name, cap(body.text), cap(body.buf))
		}
	}
}
