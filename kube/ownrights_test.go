package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// unseenBy stops the server from answering the watches of a client, once they are cut.
type unseenBy struct {
	http.RoundTripper
	cut <-chan struct{}
}

func (u unseenBy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "true" {
		return u.RoundTripper.RoundTrip(r)
	}
	ctx, cancel := context.WithCancel(r.Context())
	context.AfterFunc(r.Context(), cancel)
	go func() {
		select {
		case <-u.cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	return u.RoundTripper.RoundTrip(r.WithContext(ctx))
}

// ownReads checks reads after own writes that the watch does not show. The only rights of
// its user to read the kind are list and watch.
type ownReads[T any] struct {
	kind    string
	objects kube.Resource[T]
	make    func(name string) *T
	change  func(*T)
	changed func(*T) bool
}

// The cached reads of a program need no right that its store does not need, even if they
// ask the server.
func TestCachedReadsNeedOnlyListAndWatch(t *testing.T) {
	s := start(t)
	books := installBooks(t, s, kube.Namespaced)
	t.Run("cluster", func(t *testing.T) {
		other := start(t)
		shelves := installBooks(t, other, kube.ClusterScoped)
		s.readsOwn(t, shelves.GVK.Group, "books", func(c *kube.Client) ownReader {
			return booksOf("shelf", kube.For[book](c, shelves))
		})
	})
	t.Run("custom", func(t *testing.T) {
		s.readsOwn(t, books.GVK.Group, "books", func(c *kube.Client) ownReader {
			return booksOf("book", kube.For[book](c, books).In(s.namespace))
		})
	})
	t.Run("built in", func(t *testing.T) {
		s.readsOwn(t, "", "configmaps", func(c *kube.Client) ownReader {
			return ownReads[corev1.ConfigMap]{"map", kube.For[corev1.ConfigMap](c).In(s.namespace),
				func(name string) *corev1.ConfigMap { return configMap(name, "a", "1") },
				func(o *corev1.ConfigMap) { o.Data["a"] = "2" }, func(o *corev1.ConfigMap) bool { return o.Data["a"] == "2" }}
		})
	})
	t.Run("built in, of the cluster", func(t *testing.T) {
		s.readsOwn(t, "rbac.authorization.k8s.io", "clusterroles", func(c *kube.Client) ownReader {
			return ownReads[rbacv1.ClusterRole]{"role", kube.For[rbacv1.ClusterRole](c), func(name string) *rbacv1.ClusterRole {
				// The names of cluster roles may have the special characters of field
				// selectors.
				return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name + `:a,b=c\d`}}
			}, func(o *rbacv1.ClusterRole) { o.Labels = map[string]string{"a": "2"} },
				func(o *rbacv1.ClusterRole) bool { return o.Labels["a"] == "2" }}
		})
	})
}

func booksOf(kind string, books kube.Resource[book]) ownReader {
	return ownReads[book]{
		kind, books, func(name string) *book { return newBook(name, "Emma") },
		func(o *book) { o.Spec.Title = "Persuasion" }, func(o *book) bool { return o.Spec.Title == "Persuasion" },
	}
}

type ownReader interface {
	test(t *testing.T, cut func())
}

// readsOwn runs a test as a user with the rights to list, watch and write a resource, and
// without the right to get it.
func (s *server) readsOwn(t *testing.T, group, resource string, of func(*kube.Client) ownReader) {
	user := s.user(t, group, resource, "list", "watch", "create", "update", "delete")
	config, unseen := s.cluster.Config(), make(chan struct{})
	config.Impersonate.UserName = user
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return unseenBy{next, unseen} })
	of(s.connect(t, config)).test(t, func() { close(unseen) })
}

// user returns the name of a user with some rights to a resource.
func (s *server) user(t *testing.T, group, resource string, verbs ...string) string {
	t.Helper()
	user := s.namespace + "-" + strings.ReplaceAll(resource, "/", "-") + "-" + group
	rights := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{group}, Resources: []string{resource},
		Verbs: verbs,
	}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: user}},
	}
	roles, bindings := kube.For[rbacv1.ClusterRole](s.Client), kube.For[rbacv1.ClusterRoleBinding](s.Client)
	got(roles.Create(soon(t), rights))(t)
	got(bindings.Create(soon(t), binding))(t)
	t.Cleanup(func() {
		_ = bindings.Delete(context.Background(), user)
		_ = roles.Delete(context.Background(), user)
	})
	return user
}

func (r ownReads[T]) test(t *testing.T, cut func()) {
	ctx, cancel := context.WithCancel(t.Context())
	store := kube.StoreOf(ctx, r.objects)
	t.Cleanup(func() { cancel(); <-store.Done() })
	must(t, store.Sync(soon(t)))
	remove := func(o *T) { _ = r.objects.Delete(context.Background(), any(o).(metav1.Object).GetName()) }
	old := got(r.objects.Create(soon(t), r.make("old")))(t)
	gone := got(r.objects.Create(soon(t), r.make("gone")))(t)
	got(store.Get(soon(t), kube.KeyOf(any(old).(metav1.Object))))(t)
	defer remove(old)
	cut()
	r.change(old)
	old = got(r.objects.Update(soon(t), old))(t)
	r.change(gone)
	got(r.objects.Update(soon(t), gone))(t)
	o := got(r.objects.Cached().Get(soon(t), any(old).(metav1.Object).GetName()))(t)
	if !r.changed(o) {
		t.Errorf("%s: a read is older than the write before it: %+v", r.kind, o)
	}
	remove(gone)
	made := got(r.objects.Create(soon(t), r.make("new")))(t)
	defer remove(made)
	names := make(map[string]bool)
	for o, err := range r.objects.Cached().All(soon(t)) {
		must(t, err)
		names[any(o).(metav1.Object).GetName()] = true
	}
	for o, want := range map[*T]bool{old: true, made: true, gone: false} {
		if name := any(o).(metav1.Object).GetName(); names[name] != want {
			t.Errorf("%s: %s is listed: %t", r.kind, name, names[name])
		}
	}
	// These are more than the server is asked about one by one.
	for i := range 20 {
		o := got(r.objects.Create(soon(t), r.make(fmt.Sprint("many-", i))))(t)
		defer remove(o)
	}
	n := 0
	for _, err := range r.objects.Cached().All(soon(t)) {
		must(t, err)
		n++
	}
	if n < 22 {
		t.Errorf("%s: %d objects are listed", r.kind, n)
	}
}
