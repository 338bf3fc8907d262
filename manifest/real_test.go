package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// admin connects to the cluster that these tests share and in which Gadgets are
// installed.
func admin(t *testing.T) (*kubetest.Cluster, *kube.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	client, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := crd.Install(t.Context(), client, newGadgetry(t, nowhere(), "").operator(t).Definitions...); err != nil {
		t.Fatal(err)
	}
	return cluster, client
}

// TestServerTakesIt sends all rendered objects to a real server. The server refuses
// unknown fields and, because of the namespace's label, pods that need privileges.
func TestServerTakesIt(t *testing.T) {
	cluster, client := admin(t)
	namespace := cluster.Namespace(t)
	op := newGadgetry(t, nowhere(), namespace).operator(t)
	op.Needs = append(op.Needs, authorizes())
	text, err := op.YAML()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for doc := range bytes.SplitSeq(text, []byte("---\n")) {
		o := new(unstructured.Unstructured)
		if err := yaml.Unmarshal(doc, &o.Object); err != nil {
			t.Fatal(err)
		}
		objects := kube.For[unstructured.Unstructured](client, kube.Kind{GVK: o.GroupVersionKind()}).
			With(kube.WriteOptions{DryRun: true, FieldValidation: "Strict", FieldManager: "dry-run"})
		if o.GetNamespace() != "" {
			objects = objects.In(o.GetNamespace())
		}
		if _, err := objects.Apply(t.Context(), o); err != nil {
			t.Errorf("%s\n%v", doc, err)
		}
		n++
	}
	if n < 9 {
		t.Errorf("%d objects", n)
	}

	// The test creates a pod as the Deployment would.
	namespaces := kube.For[corev1.Namespace](client)
	if _, err := namespaces.Modify(t.Context(), namespace, func(n *corev1.Namespace) error {
		n.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	accounts := kube.For[corev1.ServiceAccount](client).In(namespace)
	account := new(corev1.ServiceAccount)
	account.Name = op.Name
	if _, err := accounts.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{Spec: op.pod()}
	pod.Name = "as-rendered"
	if _, err := kube.For[corev1.Pod](client).In(namespace).Create(t.Context(), pod); err != nil {
		t.Error(err)
	}
}

// TestRights runs an operator with its rendered rights, and then without each of them in
// turn.
func TestRights(t *testing.T) {
	cluster, client := admin(t)
	op := newGadgetry(t, nowhere(), "ns").operator(t)
	all, err := grants(op.needs(), op.Definitions)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("all", func(t *testing.T) {
		s := startScene(t, cluster, client, grant{})
		s.play()
		if err := s.used.Compare(s.op); err != nil {
			t.Error(err)
		}
		if refused := s.used.Refused(); len(refused) > 0 {
			t.Errorf("refused: %s", refused)
		}

		// The audit finds a right that is not declared, and a right that is not used.
		less, more := s.op, s.op
		less.Controllers = nil
		more.Needs = append(slices.Clone(more.Needs), Deletes(s.maps))
		for name, op := range map[string]Operator{"missing: the right to watch gadgets.manifest.test": less, "superfluous: the right to delete configmaps": more} {
			if err := s.used.Compare(op); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("want %q: %v", name, err)
			}
		}
	})
	for _, g := range all {
		t.Run("without "+g.String(), func(t *testing.T) {
			t.Parallel()
			s := startScene(t, cluster, client, g)
			s.play()
			refused := s.used.Refused()
			if len(refused) == 0 {
				t.Fatalf("nothing was refused: is the right needed?")
			}
			t.Logf("refused: %s", refused)
		})
	}
}

// scene is an operator that runs with the rights of a service account.
type scene struct {
	*gadgetry
	t       *testing.T
	op      Operator
	used    Audit
	objects kube.Resource[Gadget] // the administrator's handle
	events  kube.Resource[eventsv1.Event]
	leases  kube.Resource[coordinationv1.Lease]
	vanish  atomic.Bool // remove the object named two before its status is applied
	stop    context.CancelFunc
	ended   chan error
}

func startScene(t *testing.T, cluster *kubetest.Cluster, client *kube.Client, without grant) *scene {
	t.Helper()
	namespace := cluster.Namespace(t)
	s := &scene{t: t, ended: make(chan error, 1)}
	s.objects = kube.For[Gadget](client).In(namespace)
	s.events = kube.For[eventsv1.Event](client).In(namespace)
	s.leases = kube.For[coordinationv1.Lease](client).In(namespace)
	other, seconds := "another process", int32(3600)
	held := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &other, LeaseDurationSeconds: &seconds}}
	held.Name = "gadgetry"
	if _, err := s.leases.Create(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: cluster.Config().Host}
	config.CAData, config.CAFile = cluster.Config().CAData, cluster.Config().CAFile
	config.Wrap(s.used.Wrap)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return vanishing{next, s} })

	s.gadgetry = newGadgetry(t, config, namespace)
	s.op = s.operator(t)
	config.BearerToken = grantRights(t, client, s.op, without)
	s.gadgetry = newGadgetry(t, config, namespace)
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.ended <- s.run(ctx) }()
	t.Cleanup(s.end)
	return s
}

func (s *scene) end() {
	if s.stop == nil {
		return
	}
	s.stop()
	s.stop = nil
	if err := <-s.ended; err != nil {
		s.t.Logf("the operator: %v", err)
	}
}

// vanishing removes an object just before its status is applied, so that the operator
// must ask whether its object is gone.
type vanishing struct {
	next http.RoundTripper
	s    *scene
}

func (v vanishing) WrappedRoundTripper() http.RoundTripper { return v.next }

func (v vanishing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/two/status") &&
		v.s.vanish.CompareAndSwap(true, false) {
		if err := v.s.remove(r.Context(), "two"); err != nil {
			return nil, err
		}
	}
	return v.next.RoundTrip(r)
}

// remove deletes an object and its finalizers.
func (s *scene) remove(ctx context.Context, name string) error {
	if err := s.objects.Delete(ctx, name); err != nil {
		return err
	}
	_, err := s.objects.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// play makes the operator do everything that it can, until a request is refused.
func (s *scene) play() {
	t := s.t
	t.Helper()
	s.until("the operator watches the lease", func() bool {
		s.used.mu.Lock()
		defer s.used.mu.Unlock()
		return s.used.used[grant{s.namespace, "coordination.k8s.io", "leases", "gadgetry", "watch"}]
	})
	// The Lease is released while the operator watches it.
	if _, err := s.leases.Patch(
		t.Context(),
		"gadgetry",
		types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":null}}`),
	); err != nil {
		t.Fatal(err)
	}
	o := new(Gadget)
	o.Name, o.Spec.Note = "one", "first"
	if _, err := s.objects.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.until("the first note is seen", func() bool { return s.seen("first") })
	// The operator creates a deleted Lease again.
	if err := s.leases.Delete(t.Context(), "gadgetry"); err != nil {
		t.Fatal(err)
	}
	s.until("there is a lease again", func() bool {
		_, err := s.leases.Get(t.Context(), "gadgetry")
		return err == nil
	})
	if _, err := s.objects.Modify(
		t.Context(), "one", func(o *Gadget) error { o.Spec.Note = "second"; return nil },
	); err != nil {
		t.Fatal(err)
	}
	s.until("the second note is seen", func() bool { return s.seen("second") })
	if err := s.objects.Delete(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	s.until("it is gone", func() bool {
		_, err := s.objects.Get(t.Context(), "one")
		return apierrors.IsNotFound(err)
	})
	s.vanish.Store(true)
	o = new(Gadget)
	o.Name, o.Spec.Note = "two", "third"
	if _, err := s.objects.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.until("the second object is gone", func() bool {
		_, err := s.objects.Get(t.Context(), "two")
		return apierrors.IsNotFound(err)
	})
	s.until("the operator asks about it", func() bool {
		s.used.mu.Lock()
		defer s.used.mu.Unlock()
		return s.used.used[grant{s.namespace, "manifest.test", "gadgets", "two", "list"}]
	})
	s.until("there is an event", func() bool {
		for _, err := range s.events.List(t.Context()) {
			return err == nil
		}
		return false
	})
	s.end()
}

func (s *scene) seen(note string) bool {
	o, err := s.objects.Get(s.t.Context(), "one")
	return err == nil && o.Status.Seen == note
}

// until waits for a condition or for a refused request.
func (s *scene) until(what string, holds func() bool) {
	s.t.Helper()
	kubetest.Eventually(s.t, what, func() error {
		if len(s.used.Refused()) == 0 && !holds() {
			return errors.New("not so, and no request was refused")
		}
		return nil
	})
}

// grantRights creates the operator's account and roles without one grant. It returns a
// token as soon as the server uses the roles.
func grantRights(t *testing.T, client *kube.Client, op Operator, without grant) string {
	t.Helper()
	all, err := grants(op.needs(), op.Definitions)
	if err != nil {
		t.Fatal(err)
	}
	if without.verb != "" {
		without.namespace = op.Install.Namespace
		i := slices.Index(all, without)
		if i < 0 {
			t.Fatalf("%s is not granted", without)
		}
		all = slices.Delete(all, i, i+1)
	}
	account := new(corev1.ServiceAccount)
	account.Name = op.Name
	accounts := kube.For[corev1.ServiceAccount](client).In(op.Install.Namespace)
	if _, err := accounts.Apply(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	for _, o := range op.roles(all) {
		switch o := o.(type) {
		case *rbacv1.Role:
			_, err = kube.For[rbacv1.Role](client).Apply(t.Context(), o)
		case *rbacv1.RoleBinding:
			_, err = kube.For[rbacv1.RoleBinding](client).Apply(t.Context(), o)
		default:
			err = fmt.Errorf("unexpected %T", o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range all {
		awaitRight(t, client, op, g)
	}
	request, err := kube.Sub[authenticationv1.TokenRequest](
		accounts, "token",
	).Create(t.Context(), op.Name, new(authenticationv1.TokenRequest))
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

func awaitRight(t *testing.T, client *kube.Client, op Operator, g grant) {
	t.Helper()
	resource, sub, _ := strings.Cut(g.resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + op.Install.Namespace + ":" + op.Name,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: g.namespace, Verb: g.verb, Group: g.group, Resource: resource, Subresource: sub, Name: g.name,
		},
	}}
	kubetest.Eventually(t, "the role allows to "+g.String(), func() error {
		answer, err := kube.For[authorizationv1.SubjectAccessReview](client).Create(t.Context(), review)
		if err != nil {
			t.Fatal(err)
		}
		if !answer.Status.Allowed {
			return fmt.Errorf("it is not allowed: %q", answer.Status.Reason)
		}
		return nil
	})
}
