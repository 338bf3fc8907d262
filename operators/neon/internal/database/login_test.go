package database

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestLoginChanges changes the Secret by which clients log in at the endpoint of a NeonDatabase. The one that
// its users know is the same, although nothing else changes.
func TestLoginChanges(t *testing.T) {
	t.Parallel()
	of := kubetest.Start(t, kubetest.Options{})
	client, ns := install(t, of), of.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	op := operator(client, ns)
	login := &corev1.Secret{Data: map[string][]byte{"password": []byte("first")}}
	login.Name = "orders-orders-app"
	if _, err := op.Secrets.Create(ctx, login); err != nil {
		t.Fatal(err)
	}
	defer run(ctx, t, op)()
	order(ctx, t, op, api.Delete)
	has := func(password string) {
		t.Helper()
		_, err := op.Secrets.Until(ctx, "orders-connection", func(s *corev1.Secret) bool {
			return string(s.Data["password"]) == password
		})
		if err != nil {
			t.Fatalf("the users do not have the password %s: %v", password, err)
		}
	}
	has("first")
	_, err := op.NeonDatabases.Until(ctx, "orders", func(d *api.NeonDatabase) bool {
		for _, c := range d.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // its last reconcile ends
	_, err = op.Secrets.Modify(ctx, "orders-orders-app", func(s *corev1.Secret) error {
		s.Data["password"] = []byte("second")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	has("second")
}
