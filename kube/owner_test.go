package kube_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/internal/pki"
	"github.com/pintle-go/pintle/kube"
)

// The content of owner references is decided without a server.
func TestSetOwner(t *testing.T) {
	client := offline(t)
	maps, secrets := kube.For[corev1.ConfigMap](client), kube.For[corev1.Secret](client)
	nodes, roles := kube.For[corev1.Node](client), kube.For[rbacv1.ClusterRole](client)
	owner := func(namespace, uid string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "o", UID: types.UID(uid)}}
	}
	yes := true
	child := func(namespace string, refs ...metav1.OwnerReference) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c", OwnerReferences: refs}}
	}
	plain := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "1"}
	controls := plain
	controls.Controller, controls.BlockOwnerDeletion = &yes, &yes
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "2"}
	otherControls := other
	otherControls.Controller = &yes

	t.Run("set", func(t *testing.T) {
		for name, c := range map[string]struct {
			child      *corev1.Secret
			controller bool
			want       []metav1.OwnerReference
		}{
			"first":               {child("a"), false, []metav1.OwnerReference{plain}},
			"namespace":           {child(""), false, []metav1.OwnerReference{plain}},
			"again":               {child("a", plain), false, []metav1.OwnerReference{plain}},
			"second":              {child("a", otherControls), false, []metav1.OwnerReference{otherControls, plain}},
			"controller":          {child("a", other), true, []metav1.OwnerReference{other, controls}},
			"becomes controller":  {child("a", plain), true, []metav1.OwnerReference{controls}},
			"remains controller":  {child("a", controls), false, []metav1.OwnerReference{controls}},
			"is controller again": {child("a", other, controls), true, []metav1.OwnerReference{other, controls}},
		} {
			t.Run(name, func(t *testing.T) {
				set := kube.SetOwner[corev1.ConfigMap, corev1.Secret]
				if c.controller {
					set = kube.SetController[corev1.ConfigMap, corev1.Secret]
				}
				must(t, set(maps, owner("a", "1"), secrets, c.child))
				if c.child.Namespace != "a" || !equalRefs(c.child.OwnerReferences, c.want) {
					t.Errorf("namespace %q, got %+v, want %+v", c.child.Namespace, c.child.OwnerReferences, c.want)
				}
			})
		}
	})
	t.Run("refused", func(t *testing.T) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
		for name, c := range map[string]struct {
			err   error
			scope bool
			want  string
		}{
			"other namespace": {kube.SetOwner(maps, owner("a", "1"), secrets, child("b")), true,
				"set owner of Secret b/c: wrong scope: ConfigMap a/o cannot own an object in another namespace"},
			"cluster-scoped child": {kube.SetOwner(maps, owner("a", "1"), roles, role), true,
				"set owner of ClusterRole r: wrong scope: ClusterRole is cluster-scoped and cannot be owned by ConfigMap a/o, which is in a namespace"},
			"not read": {kube.SetOwner(maps, owner("a", ""), secrets, child("a")), false,
				"set owner of Secret a/c: ConfigMap o has no uid: only an object that was read from the server can be an owner"},
			"controlled": {kube.SetController(maps, owner("a", "1"), secrets, child("a", otherControls)), false,
				"set owner of Secret a/c: Pod p is already its controller"},
			"becomes second controller": {kube.SetController(maps, owner("a", "1"), secrets, child("a", plain, otherControls)),
				false,
				"set owner of Secret a/c: Pod p is already its controller"},
			"nil": {kube.SetOwner(maps, nil, secrets, child("a")), false,
				"set owner of Secret: the object is nil"},
		} {
			if c.err == nil || c.err.Error() != c.want || errors.Is(c.err, kube.ErrScope) != c.scope {
				t.Errorf("%s: got error\n%v\nwant\n%s", name, c.err, c.want)
			}
		}
	})
	t.Run("cluster-scoped owner", func(t *testing.T) {
		c := child("a")
		must(t, kube.SetOwner(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "3"}}, secrets, c))
		if len(c.OwnerReferences) != 1 || c.OwnerReferences[0].Kind != "Node" || c.Namespace != "a" {
			t.Errorf("got %+v", c.ObjectMeta)
		}
	})
}

func equalRefs(a, b []metav1.OwnerReference) bool {
	text := func(refs []metav1.OwnerReference) string {
		var s strings.Builder
		for _, r := range refs {
			s.WriteString(r.String())
		}
		return s.String()
	}
	return text(a) == text(b)
}

// TestOwned checks that the server accepts the owner references of SetController.
func TestOwned(t *testing.T) {
	s := start(t)
	books := kube.For[book](s.Client, installBooks(t, s, kube.Namespaced)).In(s.namespace)
	maps := kube.For[corev1.ConfigMap](s.Client)
	b := got(books.Create(soon(t), newBook("b", "Dune")))(t)
	intent := configMap("m", "k", "v")
	must(t, kube.SetController(books, b, maps, intent))
	m := got(maps.Apply(soon(t), intent))(t)
	if ref := metav1.GetControllerOf(m); ref == nil || ref.UID != b.UID || ref.Kind != "Book" ||
		ref.APIVersion != books.Kind().GroupVersion().String() {
		t.Errorf("controlled by %+v", m.OwnerReferences)
	}
}

// The garbage collector of a cluster knows no owners of another one, and deletes their children.
func TestSetOwnerOfAnotherCluster(t *testing.T) {
	authority := func() []byte {
		a := got(pki.New(time.Now(), time.Hour))(t)
		return pki.Bundle([]pki.Authority{a})
	}
	mine, theirs := authority(), authority()
	connect := func(host string, ca []byte, change ...func(*rest.Config)) *kube.Client {
		config := &rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
		for _, f := range change {
			f(config)
		}
		client := got(kube.Config{Rest: config}.Connect())(t)
		t.Cleanup(client.Close)
		return client
	}
	inFile := func(c *rest.Config) {
		c.CAFile, c.CAData = filepath.Join(t.TempDir(), "ca.crt"), nil
		must(t, os.WriteFile(c.CAFile, append(mine, '\n'), 0o600))
	}
	first := connect("https://one.example:6443", mine)
	for name, test := range map[string]struct {
		owners, children *kube.Client
		same             bool
	}{
		"itself":           {first, first, true},
		"another user":     {first, connect("https://one.example:6443/", mine, func(c *rest.Config) { c.Impersonate.UserName = "x" }), true},
		"another address":  {first, connect("https://10.0.0.1", mine), true},
		"in a pod":         {first, connect("https://10.0.0.1", nil, inFile), true},
		"another cluster":  {first, connect("https://two.example:6443", theirs), false},
		"public authority": {connect("https://a.example", nil), connect("https://b.example", nil), false},
		"one proxy": {
			connect("https://proxy.example/k8s/clusters/a", mine), connect("https://proxy.example/k8s/clusters/b", mine), false,
		},
	} {
		for _, pair := range [][2]*kube.Client{{test.owners, test.children}, {test.children, test.owners}} {
			if pair[0].SameCluster(pair[1]) != test.same {
				t.Errorf("%s: SameCluster is %t", name, !test.same)
			}
			owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "o", UID: "1"}}
			for verb, set := range map[string]func(
				kube.Handle[corev1.ConfigMap], *corev1.ConfigMap, kube.Handle[corev1.Secret], *corev1.Secret) error{
				"SetOwner": kube.SetOwner[corev1.ConfigMap, corev1.Secret], "SetController": kube.SetController[corev1.ConfigMap, corev1.Secret],
			} {
				child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}}
				err := set(kube.For[corev1.ConfigMap](pair[0]), owner, kube.For[corev1.Secret](pair[1]), child)
				if (err == nil) != test.same || err != nil && !strings.Contains(err.Error(), "ConfigMap a/o is in another cluster") ||
					(len(child.OwnerReferences) == 1) != test.same {
					t.Errorf("%s: %s: got %v and %v", name, verb, err, child.OwnerReferences)
				}
			}
		}
	}
}
