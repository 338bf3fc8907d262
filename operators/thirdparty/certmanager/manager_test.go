// Package certmanager_test runs cert-manager's own controllers, and programs that use the
// certificates which they issue: the Neon operator, and a server with package certificate.
package certmanager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"

	// These packages register their controllers.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

// cert-manager never ends the recorders of its events, nor the timers of renewals. Its program ends instead. A
// watch of metadata of controller-runtime may end while an event is passed on, and then nobody takes the event.
func TestMain(m *testing.M) {
	// Without a logger controller-runtime prints a stack, as a program does that panics.
	ctrl.SetLogger(logr.Discard())
	os.Exit(leak.Run(m,
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*Broadcaster).loop"),
		goleak.IgnoreTopFunction("k8s.io/client-go/tools/record.(*eventBroadcasterImpl).StartEventWatcher.func1"),
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"),
		goleak.IgnoreTopFunction("github.com/cert-manager/cert-manager/pkg/scheduler.afterFunc.func2"),
	))
}

// TestCertManager has cert-manager issue certificates for the Neon operator, and for a server with package
// certificate.
func TestCertManager(t *testing.T) {
	w := newWorld(t)
	startNeon(w)
	for name, test := range map[string]func(*world){
		"webhook":        testWebhook,
		"issuer":         func(w *world) { neon{w}.testIssuer() },
		"cluster issuer": func(w *world) { neon{w}.testClusterIssuer() },
		"interrupted":    func(w *world) { neon{w}.testInterrupted() },
		"refused":        func(w *world) { neon{w}.testRefused() },
		"due":            func(w *world) { neon{w}.testDue() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&world{t, w.cluster, w.client, w.system})
		})
	}
}

// patience is the longest time that a step may take on a busy machine.
const patience = 2 * time.Minute

// world is a cluster in which cert-manager runs.
type world struct {
	*testing.T
	cluster *kubetest.Cluster
	client  *kube.Client
	// system is the namespace of cert-manager, with the authorities of ClusterIssuers.
	system string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, cluster: kubetest.Start(t, kubetest.Options{Private: true})} // cert-manager serves all namespaces
	var err error
	w.client, err = kube.Config{Rest: w.cluster.Config(), FieldManager: "test"}.Connect()
	w.ok(err)
	t.Cleanup(w.client.Close)
	w.install()
	w.system = w.cluster.Namespace(t)
	w.manage()
	w.inject()
	return w
}

// install installs the definitions that come with cert-manager.
func (w *world) install() {
	w.Helper()
	const module = "github.com/cert-manager/cert-manager"
	out, err := exec.CommandContext(w.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	w.ok(err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "deploy/crds/cert-manager.io_*.yaml"))
	w.ok(err)
	var texts [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		w.ok(err)
		texts = append(texts, text)
	}
	w.define(texts...)
}

// define installs definitions in YAML.
func (w *world) define(texts ...[]byte) {
	w.Helper()
	var all []*crd.Definition
	for _, text := range texts {
		d := new(crd.Definition)
		w.ok(yaml.Unmarshal(text, d))
		all = append(all, d)
	}
	w.ok(crd.Install(w.soon(), w.client, all...))
}

// manage runs cert-manager's controllers until the test ends, as its program does.
func (w *world) manage() {
	w.Helper()
	said := new(log)
	ctx, stop := context.WithCancel(logr.NewContext(context.Background(), said.logger()))
	options := controller.ContextOptions{Kubeconfig: w.cluster.Kubeconfig()}
	options.ClusterResourceNamespace = w.system
	// The defaults of the program's flags.
	options.CertificateRequestMinimumBackoffDuration = time.Hour
	options.CertificateRequestMaximumBackoffDuration = 32 * time.Hour
	factory, err := controller.NewContextFactory(ctx, options)
	w.ok(err)
	var all []controller.Interface
	for _, build := range controller.Known() {
		c, err := build(factory)
		w.ok(err)
		all = append(all, c)
	}
	shared, err := factory.Build()
	w.ok(err)
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	var running sync.WaitGroup
	for _, c := range all {
		running.Go(func() {
			if err := c.Run(5, ctx); err != nil && ctx.Err() == nil {
				w.Errorf("cert-manager: %v", err)
			}
		})
	}
	w.Cleanup(func() {
		stop()
		running.Wait()
		shared.SharedInformerFactory.Shutdown()
		shared.KubeSharedInformerFactory.Shutdown()
		if w.Failed() {
			w.Log("cert-manager's log:\n" + said.text())
		}
	})
}

// inject runs cert-manager's injector of authorities until the test ends.
func (w *world) inject() {
	w.Helper()
	said := new(log)
	ctx, stop := context.WithCancel(context.Background())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		certmanager.AddToScheme, corev1.AddToScheme, admissionv1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		w.ok(add(scheme))
	}
	connection := w.cluster.Config()
	connection.UserAgent = "cert-manager-cainjector" // and the field manager
	m, err := ctrl.NewManager(connection, ctrl.Options{
		Scheme: scheme, Logger: said.logger(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // the test may run again
	})
	w.ok(err)
	w.ok(cainjector.RegisterAllInjectors(ctx, m, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor:        map[string]bool{cainjector.ValidatingWebhookConfigurationName: true},
	}))
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	w.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.Errorf("cert-manager's injector: %v", err)
		}
		if w.Failed() {
			w.Log("the log of cert-manager's injector:\n" + said.text())
		}
	})
}

// log has the lines of a program. A test would not take those of cert-manager, which it logs after its end.
type log struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(text)
}

func (l *log) logger() logr.Logger {
	return funcr.New(func(prefix, args string) { fmt.Fprintln(l, prefix, args) }, funcr.Options{LogTimestamp: true})
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) soon() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.Cleanup(cancel)
	return ctx
}

// eventually waits until something holds.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	kubetest.Eventually(w, what, func() error {
		if !holds() {
			return errors.New("it is not so")
		}
		return nil
	})
}

var kind = kube.Kind{AddToScheme: certmanager.AddToScheme}

func (w *world) certificates(namespace string) kube.Resource[certmanager.Certificate] {
	return kube.For[certmanager.Certificate](w.client, kind).In(namespace)
}

func (w *world) requests(namespace string) kube.Resource[certmanager.CertificateRequest] {
	return kube.For[certmanager.CertificateRequest](w.client, kind).In(namespace)
}

func (w *world) secrets(namespace string) kube.Resource[corev1.Secret] {
	return kube.For[corev1.Secret](w.client).In(namespace)
}

// issuer makes an issuer whose authority is in a Secret.
func (w *world) issuer(namespace, name string, is certmanager.IssuerConfig) {
	w.Helper()
	i := &certmanager.Issuer{Spec: certmanager.IssuerSpec{IssuerConfig: is}}
	i.Name = name
	_, err := kube.For[certmanager.Issuer](w.client, kind).In(namespace).Create(w.soon(), i)
	w.ok(err)
}

// authority has cert-manager make an authority in the Secret name, and returns its certificate.
func (w *world) authority(namespace, name string, key certmanager.CertificatePrivateKey) []byte {
	w.Helper()
	w.issuer(namespace, name+"-self", certmanager.IssuerConfig{SelfSigned: new(certmanager.SelfSignedIssuer)})
	c := new(certmanager.Certificate)
	c.Name, c.Spec.SecretName, c.Spec.CommonName, c.Spec.IsCA, c.Spec.PrivateKey = name, name, name, true, &key
	c.Spec.IssuerRef = cmmeta.IssuerReference{Name: name + "-self"}
	_, err := w.certificates(namespace).Create(w.soon(), c)
	w.ok(err)
	w.issued(namespace, name)
	s, err := w.secrets(namespace).Get(w.soon(), name)
	w.ok(err)
	return s.Data[corev1.TLSCertKey]
}

// issued waits until a Certificate is ready.
func (w *world) issued(namespace, name string) {
	w.Helper()
	_, err := w.certificates(namespace).Until(w.soon(), name, func(c *certmanager.Certificate) bool {
		return condition(c, certmanager.CertificateConditionReady) == cmmeta.ConditionTrue
	})
	w.ok(err)
}

func condition(c *certmanager.Certificate, of certmanager.CertificateConditionType) cmmeta.ConditionStatus {
	for _, is := range c.Status.Conditions {
		if is.Type == of {
			return is.Status
		}
	}
	return cmmeta.ConditionUnknown
}

// renew asks for another certificate, as cmctl renew does.
func (w *world) renew(namespace, name string) {
	w.Helper()
	all := w.certificates(namespace)
	w.eventually("a renewal can be asked for", func() bool { // cert-manager writes the status as well
		c, err := all.Get(w.soon(), name)
		w.ok(err)
		isIssuing := func(o certmanager.CertificateCondition) bool {
			return o.Type == certmanager.CertificateConditionIssuing
		}
		if i := slices.IndexFunc(c.Status.Conditions, isIssuing); i >= 0 && c.Status.Conditions[i].Status == cmmeta.ConditionTrue {
			return false // the issuance removes the condition when it ends, and so would remove this request
		}
		now := metav1.Now()
		c.Status.Conditions = append(slices.DeleteFunc(c.Status.Conditions, isIssuing), certmanager.CertificateCondition{
			Type: certmanager.CertificateConditionIssuing, Status: cmmeta.ConditionTrue, LastTransitionTime: &now,
			Reason: "ManuallyTriggered", Message: "Certificate re-issuance manually triggered",
		})
		err = all.Status().Update(w.soon(), c)
		return err == nil
	})
}
