package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// sentence compares an error with the wanted text. In it, ADDR and DIR stand for the
// parts that differ from run to run.
func sentence(t *testing.T, err error, want string, replace ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("got no error, want\n%s", want)
		return
	}
	if text := strings.NewReplacer(replace...).Replace(err.Error()); text != want {
		t.Errorf("got error\n%s\nwant\n%s", text, want)
	}
}

func TestKubeconfigSentences(t *testing.T) {
	dir := t.TempDir()
	setHome(t, dir)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	empty := write("empty", "")
	broken := write("broken", "apiVersion: v1\nclusters: [")
	noCurrent := write("no-current",
		"apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n")
	noCluster := write(
		"no-cluster",
		"apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: gone, user: u}}]\nusers: [{name: u, user: {token: t}}]\n",
	)
	noCA := write(
		"no-ca",
		"apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: gone.crt}}]\n",
	)
	for name, c := range map[string]struct {
		env    string
		config kube.Config
		want   string
	}{
		"nothing": {"", kube.Config{},
			"load kubeconfig: DIR/.kube/config does not exist, and this is not a pod: set KUBECONFIG or start a cluster"},
		"missing": {filepath.Join(dir, "none"), kube.Config{},
			"load kubeconfig: DIR/none does not exist, and this is not a pod: set KUBECONFIG or start a cluster"},
		"missing, named": {"", kube.Config{Kubeconfig: filepath.Join(dir, "none")},
			"load kubeconfig: stat DIR/none: no such file or directory"},
		"empty": {empty, kube.Config{},
			"load kubeconfig: DIR/empty has no current cluster: is current-context set, and is that context defined?"},
		"no current context": {noCurrent, kube.Config{},
			"load kubeconfig: DIR/no-current has no current cluster: is current-context set, and is that context defined?"},
		"broken": {broken, kube.Config{},
			`load kubeconfig: error loading config file "DIR/broken": yaml: line 2: did not find expected node content`},
		"other context": {noCurrent, kube.Config{Context: "prod"},
			`load kubeconfig: DIR/no-current has no context "prod": kubectl config get-contexts lists the others`},
		"other context, no file": {filepath.Join(dir, "none"), kube.Config{Context: "prod"},
			"load kubeconfig: DIR/none does not exist, and this is not a pod: set KUBECONFIG or start a cluster"},
		"context of no cluster": {noCluster, kube.Config{},
			"load kubeconfig: DIR/no-cluster has no current cluster: is current-context set, and is that context defined?"},
		"authority missing": {noCA, kube.Config{},
			`load kubeconfig: invalid configuration: unable to read certificate-authority DIR/gone.crt for c due to open DIR/gone.crt: no such file or directory`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", c.env)
			_, err := c.config.Connect()
			sentence(t, err, c.want, dir, "DIR")
		})
	}
}

// TestUnreachable asks servers that do not answer as they should.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	refused := listener.Addr().String()
	must(t, listener.Close())
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	must(t, err)
	defer silent.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = discardLog
	secure.StartTLS()
	defer secure.Close()
	secureAddr, plainAddr := secure.Listener.Addr().String(), plain.Listener.Addr().String()
	trusted := rest.TLSClientConfig{CAData: pemOf(secure.Certificate())}
	misnamed := trusted
	misnamed.ServerName = "kubernetes.default.svc"

	for name, c := range map[string]struct {
		config      rest.Config
		unreachable bool
		want        string
	}{
		"refused": {rest.Config{Host: "https://" + refused}, true,
			"get ConfigMap a/x: cannot reach the API server at ADDR (is it running? is this the right kubeconfig context?): dial tcp ADDR: connect: connection refused"},
		"no such name": {rest.Config{Host: "https://no-such-host.invalid:6443"}, true,
			"get ConfigMap a/x: cannot reach the API server at no-such-host.invalid:6443: dial tcp: lookup no-such-host.invalid"},
		"unknown authority": {rest.Config{Host: "https://" + secureAddr}, true,
			"get ConfigMap a/x: cannot reach the API server at ADDR: its certificate is not trusted (is certificate-authority in the kubeconfig of this cluster?): tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		"other name": {rest.Config{Host: "https://" + secureAddr, TLSClientConfig: misnamed}, true,
			"get ConfigMap a/x: cannot reach the API server at ADDR: its certificate is for another name (does the kubeconfig lack tls-server-name?): tls: failed to verify certificate: x509: certificate is valid for example.com, *.example.com, not kubernetes.default.svc"},
		"no TLS": {rest.Config{Host: "https://" + plainAddr}, true,
			"get ConfigMap a/x: cannot reach the API server at ADDR: it does not speak HTTPS (see server in the kubeconfig): http: server gave HTTP response to HTTPS client"},
		"silent": {rest.Config{Host: "https://" + silent.Addr().String()}, false,
			"get ConfigMap a/x: context deadline exceeded before ADDR answered"},
		"no Kubernetes": {rest.Config{Host: "https://" + secureAddr, TLSClientConfig: trusted}, false,
			"get ConfigMap a/x: kind is not served: the server has no configmaps in v1: install its CustomResourceDefinition, or check group and version"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := kube.Config{Rest: &c.config}.Connect()
			must(t, err)
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if name == "silent" {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
			}
			start := time.Now()
			_, err = kube.For[corev1.ConfigMap](client).In("a").Get(ctx, "x")
			if errors.Is(err, kube.ErrUnreachable) != c.unreachable {
				t.Errorf("unreachable: %t", !c.unreachable)
			}
			addr := strings.TrimPrefix(c.config.Host, "https://")
			if name == "no such name" {
				// The resolver writes the rest of the text.
				if err == nil || !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("got error %v", err)
				}
				return
			}
			sentence(t, err, c.want, addr, "ADDR")
			if d := time.Since(start); d > 30*time.Second {
				t.Errorf("took %s", d)
			}
		})
	}
}

// robot returns a client with a service account, which has no rights.
func (s *server) robot(t *testing.T) *kube.Client {
	t.Helper()
	accounts := kube.For[corev1.ServiceAccount](s.Client).In(s.namespace)
	got(accounts.Create(soon(t), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}))(t)
	token := got(kube.Sub[authenticationv1.TokenRequest](accounts, "token").Create(soon(t), "robot",
		&authenticationv1.TokenRequest{}))(t)
	config := rest.AnonymousClientConfig(s.Config().Rest)
	config.BearerToken = token.Status.Token
	return s.connect(t, config)
}

// TestCredentials asks the real server with bad credentials and with few rights.
func TestCredentials(t *testing.T) {
	s := start(t)
	bare := rest.AnonymousClientConfig(s.Config().Rest)
	bad := rest.CopyConfig(bare)
	bad.BearerToken = "nonsense"
	_, err := kube.For[corev1.ConfigMap](s.connect(t, bad)).In("a").Get(soon(t), "x")
	sentence(
		t, err,
		"get ConfigMap a/x: the server does not accept the credentials (expired, or of another cluster? see the kubeconfig's user): Unauthorized",
	)
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("got error %v", err)
	}

	robot := s.robot(t)
	_, err = kube.For[corev1.Secret](robot).In("a").Get(soon(t), "x")
	sentence(
		t,
		err,
		`get Secret a/x: not allowed (a Role or ClusterRole must grant it): secrets "x" is forbidden: User "system:serviceaccount:NS:robot" cannot get resource "secrets" in API group "" in the namespace "a"`,
		s.namespace,
		"NS",
	)
	if !apierrors.IsForbidden(err) {
		t.Errorf("got error %v", err)
	}
	err = first(kube.For[corev1.Secret](robot).List(soon(t)))
	sentence(
		t,
		err,
		`list Secret: not allowed (a Role or ClusterRole must grant it): secrets is forbidden: User "system:serviceaccount:NS:robot" cannot list resource "secrets" in API group "" at the cluster scope`,
		s.namespace,
		"NS",
	)
}

// TestOwnerOfUnknownKind has an owner of a kind that the admission plugin for owner references does not
// know, as it does not know a kind whose definition is a few seconds old.
func TestOwnerOfUnknownKind(t *testing.T) {
	s := start(t)
	robot := s.robot(t)
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "robot"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}},
	}
	got(kube.For[rbacv1.Role](s.Client).In(s.namespace).Create(soon(t), role))(t)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "robot"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "robot", Namespace: s.namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "robot"},
	}
	got(kube.For[rbacv1.RoleBinding](s.Client).In(s.namespace).Create(soon(t), binding))(t)
	block := true
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "example.com/v1", Kind: "Nothing", Name: "nothing", UID: "1", BlockOwnerDeletion: &block,
	}}}}
	var err error
	kubetest.Eventually(t, "the authorizer has seen the binding", func() error {
		_, err = kube.For[corev1.ConfigMap](robot).In(s.namespace).Create(soon(t), o)
		if strings.Contains(fmt.Sprint(err), "cannot create resource") {
			return err
		}
		return nil
	})
	sentence(
		t,
		err,
		`create ConfigMap NS/owned: the admission plugin for owner references does not know the owner's kind (it reads the kinds every 30 s): configmaps "owned" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion example.com/v1 Kind Nothing: no matches for kind "Nothing" in version "example.com/v1"`,
		s.namespace,
		"NS",
	)
}

// TestNotServed asks the real server for kinds that it does not have.
func TestNotServed(t *testing.T) {
	s := start(t)
	const hint = ": install its CustomResourceDefinition, or check group and version"
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"custom kind": {second(kube.For[book](s.Client, kindOf("nowhere.example.com", "Book")).In("a").Get(soon(t), "x")),
			"get Book a/x: kind is not served: the server has no Book in nowhere.example.com/v1" + hint},
		"custom kind, declared whole": {second(kube.For[book](s.Client, kube.Kind{GVK: kindOf("nowhere.example.com",
			"Book").GVK, Plural: "books", Scope: kube.Namespaced}).In("a").Get(soon(t), "x")),
			"get Book a/x: kind is not served: the server has no books in nowhere.example.com/v1" + hint},
		"other kind of a served group": {second(kube.For[book](s.Client, kindOf("apps", "Book")).In("a").Get(soon(t),
			"x")),
			"get Book a/x: kind is not served: the server has no Book in apps/v1" + hint},
		"declared, of a served group": {first(kube.For[book](s.Client,
			kube.Kind{GVK: kindOf("apps", "Book").GVK, Plural: "books", Scope: kube.Namespaced}).List(soon(t))),
			"list Book: kind is not served: the server has no books in apps/v1" + hint},
		"version that is no more": {first(kube.For[extensionsv1beta1.Ingress](s.Client).List(soon(t))),
			"list Ingress: kind is not served: the server has no ingresses in extensions/v1beta1" + hint},
		"create": {second(kube.For[book](s.Client, kindOf("nowhere.example.com", "Book")).In("a").Create(soon(t),
			newBook("x", "Dune"))),
			"create Book a/x: kind is not served: the server has no Book in nowhere.example.com/v1" + hint},
	} {
		t.Run(name, func(t *testing.T) {
			sentence(t, c.err, c.want)
			if !errors.Is(c.err, kube.ErrNotServed) || apierrors.IsNotFound(c.err) {
				t.Errorf("not served: %t, not found: %t", errors.Is(c.err, kube.ErrNotServed), apierrors.IsNotFound(c.err))
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

type nameless struct{ kube.Object }

type noVersion struct{ kube.Object }

func (noVersion) GVK() kube.GVK { return kube.GVK{Group: "example.com", Kind: "Thing"} }

// TestHandleSentences makes invalid handles and invalid calls. All of them return an
// error before any request.
func TestHandleSentences(t *testing.T) {
	c := offline(t)
	ctx := t.Context()
	maps := kube.For[corev1.ConfigMap](c).In("a")
	podKind := kube.KindOf[corev1.Pod]()
	var zero kube.Resource[corev1.Pod]
	x := configMap("x")
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"type without kind": {second(kube.For[nameless](c).Get(ctx, "x")),
			"get kube_test.nameless x: unknown kind: Go type kube_test.nameless does not name its kind: give it a method `func (nameless) GVK() kube.GVK`, or declare it once with kube.Kind{AddToScheme: …} and give that to kube.For"},
		"kind without version": {second(kube.For[noVersion](c).Get(ctx, "x")),
			"get Thing x: unknown kind: the GVK of kube_test.noVersion has no version"},
		"two kinds": {second(kube.For[nameless](c, podKind, podKind).Get(ctx, "x")),
			"get kube_test.nameless x: unknown kind: 2 kinds were given, and a handle is of one"},
		"wrong scheme": {second(kube.For[nameless](c, kube.Kind{AddToScheme: appsv1.AddToScheme}).Get(ctx, "x")),
			"get kube_test.nameless x: unknown kind: AddToScheme of the given kind does not register kube_test.nameless"},
		"wrong scope word": {second(kube.For[nameless](c, kube.Kind{GVK: podKind.GVK, Scope: "Galaxy"}).Get(ctx, "x")),
			`get Pod x: unknown kind: scope "Galaxy" of kube_test.nameless is neither Namespaced nor Cluster`},
		"metadata of what": {second(kube.ViewOf[metav1.PartialObjectMetadata](c).Get(ctx, "x")),
			"get v1.PartialObjectMetadata x: unknown kind: PartialObjectMetadata needs a kind, as in kube.ViewOf[metav1.PartialObjectMetadata](client, kube.KindOf[corev1.Pod]())"},
		"metadata to write": {second(kube.For[metav1.PartialObjectMetadata](c, podKind).Get(ctx, "x")),
			"get Pod x: unknown kind: v1.PartialObjectMetadata is not the whole of v1.Pod, and writing it would lose fields: use ViewOf"},
		"metadata of a custom kind to write": {second(kube.For[kube.Object](c, kindOf("example.com", "Book")).Get(ctx,
			"x")),
			"get Book x: unknown kind: kube.Object is the metadata of a kind, and writing it would lose the rest: use ViewOf"},
		"view to write": {second(kube.For[podView](c, podKind).Get(ctx, "x")),
			"get Pod x: unknown kind: kube_test.podView is not the whole of v1.Pod, and writing it would lose fields: use ViewOf"},
		"kind of a nameless type": {second(kube.ViewOf[podView](c, kube.KindOf[nameless]()).Get(ctx, "x")),
			"get kube_test.podView x: unknown kind: Go type kube_test.nameless does not name its kind: give it a method `func (nameless) GVK() kube.GVK`, or declare it once with kube.Kind{AddToScheme: …} and give that to kube.For"},
		"nil client": {second(kube.For[corev1.Pod](nil).Get(ctx, "x")),
			"get Pod x: the client is nil: was the error of Connect checked?"},
		"zero handle": {second(zero.Get(ctx, "x")),
			"get objects x: the handle is a zero value: make it with For or ViewOf"},
		"no name": {second(maps.Get(ctx, "")), "get ConfigMap in a: no name is given"},
		"slash":   {second(maps.Get(ctx, "b/x")), `get ConfigMap a/b/x: "b/x" cannot be a name`},
		"dots":    {maps.Delete(ctx, ".."), `delete ConfigMap a/..: ".." cannot be a name`},
		"namespace dots": {second(kube.For[corev1.ConfigMap](c).In("..").Get(ctx, "x")),
			`get ConfigMap ../x: wrong scope: ".." cannot be a namespace`},
		"label selector": {first(maps.Labeled("a==b==c").List(ctx)),
			`list ConfigMap in a: parse label selector "a==b==c": found '==', expected: ',' or 'end of string'`},
		"field selector": {first(maps.Fielded("a").List(ctx)),
			`list ConfigMap in a: parse field selector "a": invalid selector: 'a'; can't understand 'a'`},
		"nil create": {second(maps.Create(ctx, nil)), "create ConfigMap: the object is nil"},
		"nil update": {second(maps.Update(ctx, nil)), "update ConfigMap: the object is nil"},
		"nil status": {maps.Status().Update(ctx, nil), "update ConfigMap: the object is nil"},
		"nil apply":  {second(maps.Apply(ctx, nil)), "apply ConfigMap: the object is nil"},
		"nil status apply": {maps.Status().Apply(ctx, nil),
			"apply ConfigMap: the object is nil"},
		"nil subresource": {second(kube.Sub[autoscalingv1.Scale](maps, "scale").Update(ctx, "x", nil)),
			"update ConfigMap/scale x: the object is nil"},
		"nameless object": {second(maps.Update(ctx, configMap(""))), "update ConfigMap in a: the object has no name"},
		"apply of a slash": {second(maps.Apply(ctx, configMap("a/b"))),
			`apply ConfigMap a/a/b: "a/b" cannot be a name`},
		"patch without name": {second(maps.Patch(ctx, "", types.MergePatchType, nil)),
			"patch ConfigMap in a: no name is given"},
		"delete all of all": {kube.For[corev1.ConfigMap](c).DeleteAll(ctx),
			"deletecollection ConfigMap: wrong scope: the API deletes collections of ConfigMap by namespace: set the namespace with In"},
		"object elsewhere": {second(kube.For[corev1.ConfigMap](c).In("b", "c").Update(ctx, inNamespace(x, "a"))),
			`update ConfigMap a/x: wrong scope: the object is in namespace "a", the handle in ["b" "c"]`},
	} {
		t.Run(name, func(t *testing.T) { sentence(t, test.err, test.want) })
	}
}

func inNamespace(cm *corev1.ConfigMap, ns string) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	cm.Namespace = ns
	return cm
}

// TestWatchSentences checks that watches and stores also name the fault of a handle.
func TestWatchSentences(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var text string
	for _, err := range kube.For[nameless](offline(t)).Watch(ctx) {
		text = err.Error()
	}
	if !strings.HasPrefix(text, "watch kube_test.nameless: unknown kind: ") || ctx.Err() != nil {
		t.Errorf("said %q", text)
	}
	store := kube.StoreOf(ctx, kube.For[corev1.Pod](nil))
	if err := store.Sync(ctx); err == nil || !strings.Contains(err.Error(), "the client is nil") {
		t.Errorf("got error %v", err)
	}
}
