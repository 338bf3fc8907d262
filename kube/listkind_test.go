package kube

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// A list with objects that name another kind is refused, before any of them is given.
func TestListOfObjectsOfAnotherKind(t *testing.T) {
	list := func(kind, apiVersion, item string) string {
		return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"9"},
			"items":[{%s"metadata":{"name":"a","namespace":"default"}}]}`, kind, apiVersion, item)
	}
	const last = `{"items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}],"kind":"PodList","apiVersion":"v1"}`
	for body, refused := range map[string]bool{
		list("PodList", "v1", ""):                                      true,
		list("ConfigMapList", "v1", `"kind":"Pod","apiVersion":"v1",`): true,
		last:                            true,
		list("ConfigMapList", "v1", ""): false,
		list("ConfigMapList", "v1", `"kind":"ConfigMap",`):                   false,
		list("ConfigMapList", "v1", `"kind":"ConfigMap","apiVersion":"v1",`): false,
	} {
		count := countListed(t, For[corev1.ConfigMap](repeating(t, typeJSON, body)), refused)
		if want := map[bool]int{false: 1}[refused]; count != want {
			t.Errorf("%s: %d objects", body, count)
		}
	}
	const group = "example.com/v1"
	for body, refused := range map[string]bool{
		list("GadgetList", group, `"kind":"Gadget","apiVersion":"example.com/v1",`):    true,
		list("WidgetoidList", group, `"kind":"Widget","apiVersion":"example.com/v1",`): false,
		list("WidgetList", group, `"kind":"Widget","apiVersion":"example.com/v2",`):    false,
		list("WidgetList", group, ""): false,
	} {
		kind := Kind{GVK: widgetKind.GVK, Plural: "widgets", Scope: Namespaced}
		count := countListed(t, ViewOf[Object](repeating(t, typeJSON, body), kind), refused)
		if want := map[bool]int{false: 1}[refused]; count != want {
			t.Errorf("%s: %d objects", body, count)
		}
	}
}

// countListed returns how many objects a list gives.
func countListed[T any](t *testing.T, h Handle[T], refused bool) (count int) {
	t.Helper()
	for _, err := range h.ReadOnly().In("default").List(t.Context()) {
		if err == nil {
			count++
		} else if !refused || !errors.Is(err, wire.ErrAnswer) {
			t.Error(err)
		}
	}
	return count
}
