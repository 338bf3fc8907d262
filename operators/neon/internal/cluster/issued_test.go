package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/certmanager"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
)

// issuer plays cert-manager for clusters whose programs run: it issues the certificates that Certificates ask
// for, and some that they do not. The real one is in operators/thirdparty/certmanager, with clusters without
// pods.
type issuer struct {
	certificates kube.Resource[certmanager.Certificate]
	authority    trust.Authorities
	// spoiled are Certificates for which it makes a key that they do not ask for.
	spoiled map[string]bool
}

func newIssuer(w *world, client *kube.Client) *issuer {
	w.Helper()
	definition := crd.Of[certmanager.Certificate](crd.Options{})
	w.ok(crd.Install(w.Context(), client, definition))
	authority, err := trust.Terms{}.Next(nil, time.Now(), false)
	w.ok(err)
	certificates := certmanager.All(client).In(w.ns)
	certificates.Open(w.Context())
	return &issuer{certificates, authority, map[string]bool{}}
}

func (i *issuer) issue(w *world) {
	w.Helper()
	for c, err := range i.certificates.Cached().All(w.Context()) {
		w.ok(err)
		if meta.IsStatusConditionTrue(c.Status.Conditions, "Ready") {
			continue
		}
		data, err := trust.Terms{}.Server(i.authority, nil, c.Spec.DNSNames, time.Now(), true)
		w.ok(err)
		if i.spoiled[c.Name] {
			delete(data, trust.Bundle)
		}
		secret := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: data}
		secret.Name, secret.Labels = c.Spec.SecretName, c.Spec.SecretTemplate.Labels
		if _, err := w.secrets.Create(w.Context(), secret); !apierrors.IsAlreadyExists(err) {
			w.ok(err)
		}
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: "Certificate is up to date and has not expired",
		})
		c.Status.Revision++
		if err := i.certificates.Status().Update(w.Context(), c); !apierrors.IsConflict(err) {
			w.ok(err)
		}
	}
}

func withIssuer(c *api.NeonCluster) {
	c.Spec.TLS = &api.TLS{Issuer: &api.Issuer{Kind: "ClusterIssuer", Name: "neon"}}
}

// TestIssuer makes a cluster whose certificates are issued by another one, which plays cert-manager.
func TestIssuer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withIssuer)
	c, err := w.issuer.certificates.Get(t.Context(), "main-safekeeper-2")
	w.ok(err)
	name := "main-safekeeper-2." + w.ns
	want := certmanager.Spec{
		SecretName: "main-safekeeper-2-issued", DNSNames: []string{name + ".svc", name, "main-safekeeper-2"},
		IssuerRef:  certmanager.IssuerRef{Group: "cert-manager.io", Kind: "ClusterIssuer", Name: "neon"},
		PrivateKey: certmanager.PrivateKey{Algorithm: "ECDSA", Encoding: "PKCS1", Size: 256, RotationPolicy: "Always"},
		Usages:     []string{"digital signature", "server auth"},
		SecretTemplate: certmanager.SecretTemplate{Labels: map[string]string{
			nameLabel: "neon", instanceLabel: "main", componentLabel: "safekeeper", idLabel: "2", certmanager.IssuedLabel: "true",
		}},
	}
	if diff := cmp.Diff(want, c.Spec); diff != "" {
		t.Errorf("the Certificate (-want +got):\n%s", diff)
	}
	var names []string
	for c, err := range w.issuer.certificates.List(t.Context()) {
		w.ok(err)
		names = append(names, c.Name)
	}
	slices.Sort(names)
	all := []string{
		"main-broker", "main-controller", "main-pageserver-1", "main-pageserver-2", "main-safekeeper-1", "main-safekeeper-2",
		"main-safekeeper-3",
	}
	if diff := cmp.Diff(all, names); diff != "" {
		t.Errorf("the Certificates (-want +got):\n%s", diff)
	}
	if is := w.authorities(); len(is) != 1 || is.Newest() != w.issuer.authority.Newest() || is[0].Key != nil {
		t.Errorf("the cluster trusts %d authorities", len(is))
	}
	w.timeline(tenantID, 1)

	t.Log("a certificate that programs cannot use is one clear condition, and nothing uses it")
	served := w.served()
	w.issuer.spoiled["main-safekeeper-4"] = true
	w.change(func(c *api.NeonCluster) { c.Spec.Safekeepers.Count = 4 })
	w.until("the condition names the certificate", says("safekeeper-certificate/4", "main-safekeeper-4-issued: the key ca.crt is missing"))
	w.ok(w.secrets.Delete(t.Context(), "main-safekeeper-4-issued"))
	delete(w.issuer.spoiled, "main-safekeeper-4")
	fourth, err := w.issuer.certificates.Get(t.Context(), "main-safekeeper-4")
	w.ok(err)
	fourth.Status.Conditions = nil
	err = w.issuer.certificates.Status().Update(t.Context(), fourth)
	w.ok(err)
	w.ready()
	for name, cert := range served {
		if s, err := w.secrets.Get(t.Context(), name); err != nil || string(s.Data[trust.Cert]) != cert {
			t.Errorf("the certificate %s is another one: %v", name, err)
		}
	}

	t.Log("a safekeeper that leaves takes its Secret with it")
	w.change(func(c *api.NeonCluster) { c.Spec.Safekeepers.Count = 3 })
	w.until("the Secret is gone", func(*api.NeonCluster) bool {
		_, err := w.secrets.Get(t.Context(), "main-safekeeper-4-issued")
		return apierrors.IsNotFound(err)
	})
}

// TestNoCertManager names an issuer, and the operator does not use cert-manager.
func TestNoCertManager(t *testing.T) {
	t.Parallel()
	op := new(Operator)
	c := sample()
	withIssuer(c)
	if _, err := op.joined(t.Context(), c, nil, time.Now()); err == nil {
		t.Error("there is no error")
	}
}
