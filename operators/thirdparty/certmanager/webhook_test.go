package certmanager_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"

	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	admission "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/kube"
)

// testWebhook serves a webhook with the files of a Secret, as docs/production.md has it: cert-manager makes the
// Secret, and its injector tells the API server of the authority.
func testWebhook(w *world) {
	ns := w.cluster.Namespace(w)
	root := w.authority(ns, "root", p256)
	w.issuer(ns, "ca", certmanager.IssuerConfig{CA: &certmanager.CAIssuer{SecretName: "root"}})
	c := new(certmanager.Certificate)
	c.Name, c.Spec.SecretName, c.Spec.IPAddresses = "hook", "hook-tls", []string{"127.0.0.1"}
	c.Spec.IssuerRef = cmmeta.IssuerReference{Name: "ca"}
	_, err := w.certificates(ns).Create(w.soon(), c)
	w.ok(err)
	w.issued(ns, "hook")
	dir := w.TempDir()
	was := w.mount(ns, "hook-tls", dir)

	files := &certificate.Files{Dir: dir}
	w.ok(files.Load())
	var calls atomic.Int32
	server := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), ReadHeaderTimeout: patience}
	server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var review admission.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admission.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(rw).Encode(review)
	})
	server.SetKeepAlivesEnabled(false) // each call checks the certificate
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: files.GetCertificate, MinVersion: tls.VersionTLS12})
	w.ok(err)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	w.Cleanup(func() { server.Close(); serving.Wait() })
	address := listener.Addr().String()
	w.register(ns, "https://"+address)

	w.Log("the webhook is called when the injector has told the API server of the authority")
	all := kube.For[corev1.ConfigMap](w.client).In(ns)
	create := func() error {
		m := new(corev1.ConfigMap)
		m.GenerateName, m.Labels = "hooked-", map[string]string{"hooked": ns}
		_, err := all.Create(w.soon(), m)
		return err
	}
	w.eventually("the webhook is called", func() bool {
		err := create()
		if err != nil && !apierrors.IsInternalError(err) {
			w.Fatal(err)
		}
		return err == nil && calls.Load() > 0
	})

	w.Log("a renewal")
	w.renew(ns, "hook")
	is := was
	w.eventually("there is another certificate", func() bool {
		is = w.mount(ns, "hook-tls", dir)
		return is != was
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(root)
	w.eventually("the other certificate is served", func() bool {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
		w.ok(err)
		defer conn.Close()
		served := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw})
		return strings.HasPrefix(is, string(served))
	})
	before := calls.Load()
	w.ok(create())
	if calls.Load() == before {
		w.Error("the webhook is not called")
	}
}

// mount writes the files of a Secret as the kubelet does, and returns the certificate.
func (w *world) mount(namespace, name, dir string) string {
	w.Helper()
	s, err := w.secrets(namespace).Get(w.soon(), name)
	w.ok(err)
	version := filepath.Join(dir, s.ResourceVersion)
	w.ok(os.MkdirAll(version, 0o700))
	for file, text := range s.Data {
		w.ok(os.WriteFile(filepath.Join(version, file), text, 0o600))
		if link := filepath.Join(dir, file); !exists(link) {
			w.ok(os.Symlink(filepath.Join("..data", file), link))
		}
	}
	w.ok(os.Symlink(s.ResourceVersion, filepath.Join(dir, "..next")))
	w.ok(os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")))
	return string(s.Data[corev1.TLSCertKey])
}

func exists(link string) bool {
	_, err := os.Lstat(link)
	return err == nil
}

// register has the API server call a webhook for some ConfigMaps of a namespace.
func (w *world) register(namespace, url string) {
	w.Helper()
	fail, none := admissionv1.Fail, admissionv1.SideEffectClassNone
	of := &admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "hook.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, FailurePolicy: &fail,
		SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"hooked": namespace}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}}}
	of.Name, of.Annotations = namespace, map[string]string{"cert-manager.io/inject-ca-from": namespace + "/hook"}
	_, err := kube.For[admissionv1.ValidatingWebhookConfiguration](w.client).Create(w.soon(), of)
	w.ok(err)
}
