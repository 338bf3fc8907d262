package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// A watch of metadata of controller-runtime may end while an event is passed on, and then nobody takes the event.
func TestMain(m *testing.M) {
	os.Exit(leak.Run(m, goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop")))
}

// The kinds of these modules' types are declared once for each module.
var (
	certManagerKind = kube.Kind{AddToScheme: certmanager.AddToScheme}
	gatewayKind     = kube.Kind{AddToScheme: gateway.Install}
)

func TestCertificate(t *testing.T) {
	client, namespace := connect(t)
	install(t, client, "github.com/cert-manager/cert-manager", "deploy/crds/cert-manager.io_certificates.yaml")
	certificate := func(name string) *certmanager.Certificate {
		return &certmanager.Certificate{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certmanager.CertificateSpec{
				SecretName: name + "-tls",
				DNSNames:   []string{name + ".example.com"},
				Duration:   &metav1.Duration{Duration: 90 * 24 * time.Hour},
				IssuerRef:  cmmeta.IssuerReference{Name: "ca", Kind: "ClusterIssuer", Group: "cert-manager.io"},
				PrivateKey: &certmanager.CertificatePrivateKey{Algorithm: certmanager.ECDSAKeyAlgorithm, Size: 256},
			},
		}
	}
	use(t, kube.For[certmanager.Certificate](client, certManagerKind).In(namespace), certificate,
		func(c *certmanager.Certificate) { c.Spec.DNSNames = append(c.Spec.DNSNames, "more.example.com") },
		func(c *certmanager.Certificate) any { return c.Spec })
}

func TestClusterIssuer(t *testing.T) {
	client, _ := connect(t)
	install(t, client, "github.com/cert-manager/cert-manager", "deploy/crds/cert-manager.io_clusterissuers.yaml")
	issuer := func(name string) *certmanager.ClusterIssuer {
		return &certmanager.ClusterIssuer{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certmanager.IssuerSpec{IssuerConfig: certmanager.IssuerConfig{
				SelfSigned: &certmanager.SelfSignedIssuer{}, // it is set, and empty
			}},
		}
	}
	use(t, kube.For[certmanager.ClusterIssuer](client, certManagerKind), issuer,
		func(i *certmanager.ClusterIssuer) {
			i.Spec.SelfSigned.CRLDistributionPoints = []string{"http://crl.example.com"}
		},
		func(i *certmanager.ClusterIssuer) any { return i.Spec })

	// A wrong scope is an error before any request for the kind.
	if _, err := kube.For[certmanager.ClusterIssuer](
		client, certManagerKind,
	).In("default").
		Get(t.Context(), "x"); !errors.Is(
		err,
		kube.ErrScope,
	) {
		t.Errorf("a namespace for a kind that has none: %v", err)
	}
}

func TestGateway(t *testing.T) {
	client, namespace := connect(t)
	install(t, client, "sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_gateways.yaml")
	newGateway := func(name string) *gateway.Gateway {
		from := gateway.NamespacesFromAll
		return &gateway.Gateway{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: gateway.GatewaySpec{
				GatewayClassName: "example",
				Listeners: []gateway.Listener{{
					Name: "http", Port: 80, Protocol: gateway.HTTPProtocolType,
					AllowedRoutes: &gateway.AllowedRoutes{Namespaces: &gateway.RouteNamespaces{From: &from}},
				}},
			},
		}
	}
	use(t, kube.For[gateway.Gateway](client, gatewayKind).In(namespace), newGateway,
		func(g *gateway.Gateway) { g.Spec.Listeners[0].Port = 8080 },
		func(g *gateway.Gateway) any { return g.Spec })
}

func TestGatewayClass(t *testing.T) {
	client, _ := connect(t)
	install(t, client, "sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml")
	class := func(name string) *gateway.GatewayClass {
		return &gateway.GatewayClass{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       gateway.GatewayClassSpec{ControllerName: "example.com/controller"},
		}
	}
	use(t, kube.For[gateway.GatewayClass](client, gatewayKind), class,
		func(c *gateway.GatewayClass) { c.Spec.Description = new("described") },
		func(c *gateway.GatewayClass) any { return c.Spec })
}

// TestUndeclared uses a type that does not name its kind, without a declaration of the
// kind.
func TestUndeclared(t *testing.T) {
	client, _ := connect(t)
	_, err := kube.For[gateway.Gateway](client).In("default").Get(t.Context(), "x")
	if !errors.Is(err, kube.ErrKind) || !strings.Contains(err.Error(), "kube.Kind{AddToScheme: …}") {
		t.Errorf("%v", err)
	}
	_, err = kube.For[gateway.Gateway](client, certManagerKind).In("default").Get(t.Context(), "x")
	if !errors.Is(err, kube.ErrKind) {
		t.Errorf("the wrong declaration: %v", err)
	}
}

// object is the interface of P: a pointer to a T with metadata.
type object[T any] interface {
	*T
	metav1.Object
}

// use does everything that a client can do with a kind, while a watch and a store follow
// it.
func use[T any, P object[T]](
	t *testing.T, all kube.Resource[T], build func(name string) *T, change func(*T), spec func(*T) any,
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := all.Open(ctx)
	events := follow[T, P](ctx, all)
	defer func() {
		cancel()
		<-store.Done()
		for range events { // until the watch has ended
		}
	}()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	same := func(what string, got *T, want *T) {
		t.Helper()
		if diff := cmp.Diff(spec(want), spec(got)); diff != "" {
			t.Errorf("%s, -want +got:\n%s", what, diff)
		}
	}

	created, err := all.Create(ctx, build("created"))
	check("create", err)
	same("create", created, build("created"))
	expect(ctx, t, events, "ADDED created")

	got, err := all.Get(ctx, "created")
	check("get", err)
	same("get", got, created)
	change(got)
	updated, err := all.Update(ctx, got)
	check("update", err)
	same("update", updated, got)
	expect(ctx, t, events, "MODIFIED created")

	applied, err := all.Apply(ctx, build("applied"))
	check("apply", err)
	same("apply", applied, build("applied"))
	expect(ctx, t, events, "ADDED applied")
	// The first change to an object writes its default status down, if the definition has
	// one.
	applied, err = all.Apply(ctx, build("applied"))
	check("apply again", err)
	again, err := all.Apply(ctx, build("applied"))
	check("apply once more", err)
	if was, is := P(applied).GetResourceVersion(), P(again).GetResourceVersion(); was != is {
		t.Errorf("applying the same again has changed the object: %s, %s", was, is)
	}
	changed := build("applied")
	change(changed)
	applied, err = all.Apply(ctx, changed)
	check("apply a change", err)
	same("apply a change", applied, changed)
	expect(ctx, t, events, "MODIFIED applied")

	var listed []string
	for o, err := range all.List(ctx) {
		check("list", err)
		listed = append(listed, P(o).GetName())
	}
	if diff := cmp.Diff([]string{"applied", "created"}, listed); diff != "" {
		t.Errorf("list, -want +got:\n%s", diff)
	}
	stored, err := kube.Get[T](ctx, store, kube.KeyOf(P(applied)))
	check("get from store", err)
	same("get from store", stored, changed)
	// A read after an own write may be answered by the server, before the watch has shown
	// the object to the store.
	kubetest.Eventually(t, "the store has two objects", func() error {
		if n := store.Stats().Objects; n != 2 {
			return fmt.Errorf("it has %d", n)
		}
		return nil
	})

	for _, name := range []string{"created", "applied"} {
		check("delete", all.Delete(ctx, name))
		expect(ctx, t, events, "DELETED "+name)
	}
	if _, err := kube.Get[T](ctx, store, kube.KeyOf(P(applied))); !apierrors.IsNotFound(err) {
		t.Errorf("get a deleted object from the store: %v", err)
	}
}

// follow sends the events of a watch, as text, and closes the channel when the watch has
// ended.
func follow[T any, P object[T]](ctx context.Context, all kube.Resource[T]) <-chan string {
	events := make(chan string)
	go func() {
		defer close(events)
		for ev, err := range all.Watch(ctx) {
			text := string(ev.Type) + " " + P(ev.Object).GetName()
			var trouble *kube.Trouble
			if errors.As(err, &trouble) {
				continue // the kind is new, and the server may still be preparing for it
			}
			if ev.Type == kube.Recovered {
				continue
			}
			if err != nil {
				text = err.Error()
			}
			select {
			case events <- text:
			case <-ctx.Done():
			}
		}
	}()
	return events
}

func expect(ctx context.Context, t *testing.T, events <-chan string, want string) {
	t.Helper()
	for {
		select {
		case got := <-events:
			if got == want {
				return
			}
			if got != "SYNCED " && !strings.HasPrefix(got, "MODIFIED ") {
				t.Fatalf("watch: %s, want %s", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("watch: no event, want %s", want)
		}
	}
}

func connect(t *testing.T) (client *kube.Client, namespace string) {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.Options{})
	client, err := kube.Config{Rest: cluster.Config(), FieldManager: "thirdparty"}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, cluster.Namespace(t)
}

// definition is the part of a CustomResourceDefinition that tells whether it is served.
type definition struct {
	kube.Object
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func (definition) GVK() kube.GVK {
	return kube.GVK{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

// install installs a definition that a module ships, and waits until its objects can be
// listed.
func install(t *testing.T, client *kube.Client, module, file string) (dir string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("find %s: %v", module, err)
	}
	dir = strings.TrimSpace(string(out))
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	// GROUP_PLURAL.yaml
	group, plural, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "_")
	name := plural + "." + group
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	definitions := kube.ViewOf[definition](client)
	if _, err := definitions.Patch(ctx, name, types.ApplyYAMLPatchType, data); err != nil {
		t.Fatal(err)
	}
	if _, err := definitions.Until(ctx, name, func(d *definition) bool {
		for _, c := range d.Status.Conditions {
			if c.Type == "Established" {
				return c.Status == metav1.ConditionTrue
			}
		}
		return false
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}
