package endpoint

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestRoleWithoutPassword gives a role a password that is not there, then in another key, then as it should be,
// and takes it away again. The condition of the role says so, and the password that it has had stays. When that
// goes too, the endpoint of the branch goes on without the role.
func TestRoleWithoutPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.operate()
	w.create(endpointOf("shop", "trunk"))
	r := new(api.NeonRole)
	r.Name, r.Spec.Branch, r.Spec.Password = "app", "trunk", &api.SecretKey{Name: "given", Key: "password"}
	_, err := w.roles.Create(w.soon(), r)
	w.ok(err)
	says := func(status metav1.ConditionStatus, secret, text string) {
		t.Helper()
		is, err := w.roles.Until(w.soon(), "app", func(r *api.NeonRole) bool {
			c := meta.FindStatusCondition(r.Status.Conditions.Conditions, "Ready")
			return c != nil && c.Status == status && r.Status.Secret == secret &&
				strings.Contains(c.Reason+": "+c.Message, text)
		})
		if err != nil {
			t.Fatalf("the role does not say %q, or its Secret is not %q: %v, %+v", text, secret, err, is)
		}
	}
	says("False", "", "NoPassword: make Secret given with the key password")
	given := &corev1.Secret{StringData: map[string]string{"word": "secret"}}
	given.Name = "given"
	_, err = w.secrets.Create(w.soon(), given)
	w.ok(err)
	says("False", "", "NoPassword: make Secret given with the key password")
	_, err = w.secrets.Modify(w.soon(), "given", func(s *corev1.Secret) error {
		s.Data["password"] = []byte("secret")
		return nil
	})
	w.ok(err)
	says("True", "app-password", "app-password")
	w.ok(w.secrets.Delete(w.soon(), "given"))
	says("False", "app-password", "the former password stays")
	is, err := w.secrets.Get(w.soon(), "app-password")
	w.ok(err)
	if string(is.Data[passwordKey]) != "secret" {
		t.Errorf("the password is %q", is.Data[passwordKey])
	}

	w.ready("shop")
	w.ok(w.secrets.Delete(w.soon(), "app-password"))
	says("False", "", "NoPassword: make Secret given with the key password")
	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Settings = map[string]string{"work_mem": "8MB"} })
	w.until("shop", "goes on without the role", func(e *api.NeonEndpoint) bool {
		return e.Status.ObservedGeneration == e.Generation && holds(e)
	})
}
