package plan

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// hiding plays an API server whose lists are empty, and on which each name belongs to
// another controller. Its watches never show anything.
type hiding struct{}

func (hiding) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(code int, body string) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}, nil
	}
	kind, group := "ClusterRole", "rbac.authorization.k8s.io/v1"
	if strings.Contains(r.URL.Path, "secrets") {
		kind, group = "Secret", "v1"
	}
	switch q := r.URL.Query(); {
	case q.Get("sendInitialEvents") != "":
		return answer(http.StatusUnprocessableEntity, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case q.Get("watch") != "":
		open, end := io.Pipe()
		go func() { <-r.Context().Done(); end.Close() }()
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: open, Request: r,
		}, nil
	case strings.HasSuffix(r.URL.Path, "/clusterroles"), strings.HasSuffix(r.URL.Path, "/secrets"):
		return answer(http.StatusOK, fmt.Sprintf(
			`{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"5"},"items":[]}`, kind, group))
	}
	return answer(http.StatusOK, fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"name":"child","uid":"u",
		"resourceVersion":"4","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"o",
		"controller":true}]}}`, kind, group))
}

// A marked child whose name belongs to somebody else is refused although a store that is
// narrowed by labels hides the other object, whatever the scopes of child and owner are.
func TestHiddenObjectIsNotTaken(t *testing.T) {
	client, err := kube.Config{Rest: &rest.Config{Host: "http://played", Transport: hiding{}}, FieldManager: "x"}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	owner := new(garden)
	owner.Name, owner.UID = "eden", "uid-eden"
	labels := map[string]string{"app": "x"}
	role, secret := new(rbacv1.ClusterRole), new(corev1.Secret)
	role.Name, role.Labels, secret.Name, secret.Namespace, secret.Labels = "child", labels, "child", "there", labels

	owner.Namespace = "default"
	hidden(t, client, owner, kube.For[rbacv1.ClusterRole](client).Labeled("app=x"), role, kube.KeyOf(role))
	owner.Namespace = ""
	hidden(t, client, owner, kube.For[corev1.Secret](client).Labeled("app=x"), secret, kube.KeyOf(secret))
}

func hidden[T any](
	t *testing.T, client *kube.Client, owner *garden, objects kube.Resource[T], want *T, key kube.Key,
) {
	t.Helper()
	informer := objects.Open(t.Context())
	defer informer.Close()
	if err := informer.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := newObject(&Plan{owner: owner, client: client}, "child", kube.Handle[T](objects))
	n.writes, n.wanted = objects, want
	if !n.isStored(t.Context()) {
		t.Errorf("%T: the store that runs is not found", want)
	}
	if err := n.mayTake(t.Context(), claim{key: key, marked: true}); !errors.Is(err, kube.ErrTaken) {
		t.Errorf("%T: got error %v, want ErrTaken", want, err)
	}
}
