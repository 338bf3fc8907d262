package ready

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The types of webhook configurations are known by their names: their package adds half a
// megabyte to a program, and few programs have such objects.
const webhooksPackage = "k8s.io/api/admissionregistration/v1"

func isWebhooks(kind string) bool {
	return kind == "MutatingWebhookConfiguration" || kind == "ValidatingWebhookConfiguration"
}

// typedWebhooks judges a webhook configuration, given as a pointer. It returns false for
// other types.
func typedWebhooks(o any) (State, bool) {
	v := reflect.ValueOf(o)
	t := v.Type()
	if t.Kind() != reflect.Pointer || t.Elem().PkgPath() != webhooksPackage || !isWebhooks(t.Elem().Name()) {
		return State{}, false
	}
	all := member(v, "Webhooks")
	for i := range all.Len() {
		config := member(all.Index(i), "ClientConfig")
		if member(config, "Service").IsValid() && member(config, "CABundle").Len() == 0 {
			return uncallable(text(member(all.Index(i), "Name"))), true
		}
	}
	return ready(), true
}

// untypedWebhooks is the same for an unstructured object.
func untypedWebhooks(u *unstructured.Unstructured) State {
	all, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	for _, item := range all {
		w, _ := item.(map[string]any)
		_, service, _ := unstructured.NestedMap(w, "clientConfig", "service")
		bundle, _, _ := unstructured.NestedString(w, "clientConfig", "caBundle")
		if service && bundle == "" {
			name, _, _ := unstructured.NestedString(w, "name")
			return uncallable(name)
		}
	}
	return ready()
}

// uncallable is the state of a configuration of which the server cannot call a webhook. A
// Service needs the given CA bundle. A URL also works with the CA certificates of the system.
func uncallable(webhook string) State { return waiting("webhook %s has no CA bundle", webhook) }
