package endpoint

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestPasswordOfSuspended changes the password that a NeonRole is given, while an endpoint of its branch is
// suspended. The Secret by which clients log in has the other password, although nothing else changes.
func TestPasswordOfSuspended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.operate()
	given := &corev1.Secret{Data: map[string][]byte{"value": []byte("first")}}
	given.Name = "given"
	_, err := w.secrets.Create(w.soon(), given)
	w.ok(err)
	role := new(api.NeonRole)
	role.Name, role.Spec.Branch, role.Spec.Password = "app", "trunk", &api.SecretKey{Name: "given", Key: "value"}
	_, err = w.roles.Create(w.soon(), role)
	w.ok(err)
	reader := endpointOf("reader", "trunk")
	reader.Spec.Type, reader.Spec.Suspended = api.ReadOnly, true
	w.create(reader)
	has := func(secret, password string) {
		t.Helper()
		_, err := w.secrets.Until(w.soon(), secret, func(s *corev1.Secret) bool {
			return string(s.Data[passwordKey]) == password
		})
		if err != nil {
			t.Fatalf("Secret %s does not have the password %s: %v", secret, password, err)
		}
	}
	has("reader-app", "first")
	w.until("reader", "is suspended", func(e *api.NeonEndpoint) bool { return e.Status.Phase == suspended && holds(e) })

	_, err = w.secrets.Modify(w.soon(), "given", func(s *corev1.Secret) error {
		s.Data["value"] = []byte("second")
		return nil
	})
	w.ok(err)
	has("app-password", "second")
	has("reader-app", "second")
}
