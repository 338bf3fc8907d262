package plan_test

import (
	"bytes"
	"crypto/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/plan"
)

// A value that is made once stays, whatever its function makes later. It comes again with
// other metadata, and another one is made only if somebody deletes it.
func TestOnce(t *testing.T) {
	s := newStubborn(t, true)
	label := "one"
	describe := func(p *plan.Plan) {
		plan.Once(p, "password", s.op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
			about := metav1.ObjectMeta{Name: "stubborn-password", Labels: map[string]string{"release": label}}
			return &corev1.Secret{
				ObjectMeta: about, Data: map[string][]byte{"password": []byte(rand.Text())}, StringData: map[string]string{"salt": rand.Text()},
			}, nil
		})
	}
	get := func() *corev1.Secret {
		is, err := s.op.secrets.Get(s.soon(), "stubborn-password")
		s.ok(err)
		return is
	}
	s.ok(s.converge(describe))
	was := get()
	if len(was.Data["password"]) < 20 || len(was.Data["salt"]) < 20 {
		t.Fatalf("the Secret has %d values", len(was.Data))
	}
	label = "two"
	s.ok(s.converge(describe))
	is := get()
	if is.UID != was.UID || is.Labels["release"] != "two" || !bytes.Equal(is.Data["password"], was.Data["password"]) ||
		!bytes.Equal(is.Data["salt"], was.Data["salt"]) || is.Immutable == nil || !*is.Immutable {
		t.Error("the values were changed, or the label was not")
	}
	s.ok(s.op.secrets.Delete(s.soon(), "stubborn-password"))
	if err := s.op.secrets.UntilGone(s.soon(), "stubborn-password"); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	s.ok(s.converge(describe))
	if bytes.Equal(get().Data["password"], was.Data["password"]) {
		t.Error("a password was made again")
	}
}
