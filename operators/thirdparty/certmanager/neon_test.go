package certmanager_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// neonCluster is the part of a NeonCluster that the tests use.
type neonCluster struct {
	kube.Object
	Spec   map[string]any `json:"spec"`
	Status plan.Status    `json:"status,omitzero"`
}

func (neonCluster) GVK() kube.GVK {
	return kube.GVK{Group: "neon.pintle.dev", Version: "v1alpha1", Kind: "NeonCluster"}
}

// neon is a world in which the Neon operator runs, with the rights that its manifests give it.
type neon struct{ *world }

// startNeon runs the operator until the test ends.
func startNeon(w *world) {
	w.Helper()
	n := neon{w}
	dir := n.TempDir()
	program := filepath.Join(dir, "neon")
	build := exec.CommandContext(n.Context(), "go", "build", "-o", program, "./operators/neon")
	build.Dir, build.Env = filepath.Join("..", "..", ".."), append(os.Environ(), "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		n.Fatalf("build: %v\n%s", err, out)
	}
	user := n.account(program)
	config, err := clientcmd.LoadFromFile(n.cluster.Kubeconfig())
	n.ok(err)
	for _, u := range config.AuthInfos {
		u.Impersonate, u.ImpersonateGroups = user, []string{"system:serviceaccounts", "system:authenticated"}
	}
	for _, c := range config.Contexts {
		c.Namespace = n.system
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	n.ok(clientcmd.WriteToFile(*config, kubeconfig))

	said := new(log)
	run := exec.Command(program, "-kubeconfig="+kubeconfig, "-cert-manager", "-install=false", "-addr=127.0.0.1:0", "-proxy=",
		"-hooks=http://127.0.0.1:1")
	run.Stdout, run.Stderr = said, said
	n.ok(run.Start())
	n.Cleanup(func() {
		if err := run.Process.Signal(syscall.SIGTERM); err != nil {
			n.Errorf("end the operator: %v", err)
		}
		if err := run.Wait(); err != nil {
			n.Errorf("the operator: %v", err)
		}
		if strings.Contains(said.text(), "forbidden") {
			n.Error("the operator lacks a right")
		}
		if n.Failed() {
			n.Log("the operator's log:\n" + said.text())
		}
	})
}

// account makes the operator's service account with its rights and definitions, as its manifests have them,
// and returns its name as a user.
func (n neon) account(program string) string {
	n.Helper()
	text, err := exec.CommandContext(n.Context(), program, "-cert-manager", "-proxy=", "manifests", "-namespace", n.system).Output()
	n.ok(err)
	user := ""
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o kube.Object
		n.ok(yaml.Unmarshal(doc, &o))
		objects := kube.ViewOf[kube.Object](n.client, kube.Kind{GVK: o.GroupVersionKind()})
		switch o.Kind {
		case "CustomResourceDefinition":
			n.define(doc)
			continue
		case "ServiceAccount":
			user = "system:serviceaccount:" + o.Namespace + ":" + o.Name
			objects = objects.In(o.Namespace)
		case "ClusterRole", "ClusterRoleBinding":
		case "Role", "RoleBinding":
			objects = objects.In(o.Namespace)
		default:
			continue
		}
		_, err := objects.Patch(n.soon(), o.Name, types.ApplyYAMLPatchType, doc)
		n.ok(err)
	}
	return user
}

func (n neon) clusters(namespace string) kube.Resource[neonCluster] {
	return kube.For[neonCluster](n.client).In(namespace)
}

// order makes a NeonCluster with an issuer. It has no object store and no database, and does not need them
// for its certificates.
func (n neon) order(namespace, kind, issuer string) {
	n.Helper()
	c := new(neonCluster)
	c.Name = "main"
	c.Spec = map[string]any{
		"image": "neon:test", "computeImages": map[string]any{"17": "compute:test"},
		"objectStore":        map[string]any{"gcs": map[string]any{"bucket": "none"}},
		"controllerDatabase": map[string]any{"url": map[string]any{"name": "none", "key": "url"}},
		"safekeepers":        map[string]any{"count": 3}, "pageservers": map[string]any{"count": 1},
		"tls":            map[string]any{"issuer": map[string]any{"kind": kind, "name": issuer}},
		"deletionPolicy": "Delete",
	}
	_, err := n.clusters(namespace).Create(n.soon(), c)
	n.ok(err)
}

// says waits until a node of the cluster's plan has a message with a text.
func (n neon) says(namespace, node, text string) {
	n.Helper()
	last := new(neonCluster)
	_, err := n.clusters(namespace).Until(n.soon(), "main", func(c *neonCluster) bool {
		last = c
		return slices.ContainsFunc(c.Status.Nodes, func(is plan.NodeStatus) bool {
			return is.Name == node && strings.Contains(is.Message, text)
		})
	})
	if err != nil {
		n.Fatalf("%s does not say %q: %v\n%s", node, text, err, strings.Join(plan.Tree{}.Lines(&last.Status, time.Now()), "\n"))
	}
}

// members are the servers of the cluster.
var members = []string{
	"main-broker", "main-controller", "main-pageserver-1", "main-safekeeper-1", "main-safekeeper-2", "main-safekeeper-3",
}

// served returns the certificates that the servers' Secrets have, by the servers.
func (n neon) served(namespace string) map[string]string {
	n.Helper()
	all := map[string]string{}
	for s, err := range n.secrets(namespace).List(n.soon()) {
		n.ok(err)
		if name, is := strings.CutSuffix(s.Name, "-tls"); is && len(s.Data[corev1.TLSCertKey]) > 0 {
			all[name] = string(s.Data[corev1.TLSCertKey])
		}
	}
	return all
}

// awaitServers waits until all servers have certificates, and checks them against an authority.
func (n neon) awaitServers(namespace string, authority []byte) {
	n.Helper()
	n.eventually("all servers have certificates", func() bool { return len(n.served(namespace)) >= len(members) })
	if diff := cmp.Diff(members, slices.Sorted(maps.Keys(n.served(namespace)))); diff != "" {
		n.Errorf("servers with certificates, -want +got:\n%s", diff)
	}
	for _, name := range members {
		s, err := n.secrets(namespace).Get(n.soon(), name+"-tls")
		n.ok(err)
		n.check(s, authority)
		if got := string(s.Data["ca.crt"]); got != string(authority) {
			n.Errorf("ca.crt of %s is\n%s\nwant\n%s", s.Name, got, authority)
		}
	}
	s, err := n.secrets(namespace).Get(n.soon(), "main-ca")
	n.ok(err)
	if got := string(s.Data["ca.crt"]); got != string(authority) {
		n.Errorf("the cluster trusts\n%s\nwant\n%s", got, authority)
	}
}

// check checks the Secret of a server.
func (n neon) check(s *corev1.Secret, authority []byte) {
	n.Helper()
	pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	n.ok(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		n.Errorf("%s: %v", s.Name, err)
	}
	service := strings.TrimSuffix(s.Name, "-tls")
	name := service + "." + s.Namespace
	names := []string{name + ".svc", name, service}
	if service == "main-broker" || service == "main-controller" {
		names = append(names, service+"-tls."+s.Namespace+".svc") // while TLS is added or removed
	}
	if diff := cmp.Diff(names, pair.Leaf.DNSNames); diff != "" {
		n.Errorf("names in %s, -want +got:\n%s", s.Name, diff)
	}
	if block, _ := pem.Decode(s.Data[corev1.TLSPrivateKeyKey]); block.Type != "EC PRIVATE KEY" {
		n.Errorf("the key in %s is a %s", s.Name, block.Type)
	}
}

// takesOver waits until a server has another certificate than it had, which is the issued one.
func (n neon) takesOver(namespace, server, was string) {
	n.Helper()
	n.eventually(server+" has another certificate", func() bool {
		is := n.served(namespace)[server]
		if is == was || is == "" {
			return false
		}
		issued, err := n.secrets(namespace).Get(n.soon(), server+"-issued")
		return err == nil && string(issued.Data[corev1.TLSCertKey]) == is
	})
}

// gone deletes the cluster, and waits until nothing of it is left. That takes as long as Kubernetes' garbage
// collector takes to see new definitions: half a minute.
func (n neon) gone(namespace string) {
	n.Helper()
	n.ok(n.clusters(namespace).Delete(n.soon(), "main"))
	n.ok(n.clusters(namespace).UntilGone(n.soon(), "main"))
	var left []string
	defer func() {
		if n.Failed() {
			n.Logf("the cluster has left %q", left)
		}
	}()
	n.eventually("nothing of the cluster is left", func() bool {
		left = n.left(namespace)
		return len(left) == 0
	})
}

// left lists what has been made for the cluster.
func (n neon) left(namespace string) (left []string) {
	n.Helper()
	ours := func(kind, name string) {
		if strings.HasPrefix(name, "main-") {
			left = append(left, kind+" "+name)
		}
	}
	for o, err := range n.certificates(namespace).List(n.soon()) {
		n.ok(err)
		ours("Certificate", o.Name)
	}
	for o, err := range n.requests(namespace).List(n.soon()) {
		n.ok(err)
		ours("CertificateRequest", o.Name)
	}
	for o, err := range n.secrets(namespace).List(n.soon()) {
		n.ok(err)
		ours("Secret", o.Name)
	}
	return left
}

var p256 = certmanager.CertificatePrivateKey{Algorithm: certmanager.ECDSAKeyAlgorithm, Size: 256}

func (n neon) testIssuer() {
	ns := n.cluster.Namespace(n)
	n.Log("an issuer that does not exist yet")
	n.order(ns, "Issuer", "neon")
	n.says(ns, "issued/safekeeper-1", "cert-manager says: Issuing certificate as Secret does not exist")
	root := n.authority(ns, "root", p256)
	n.issuer(ns, "neon", certmanager.IssuerConfig{CA: &certmanager.CAIssuer{SecretName: "root"}})
	n.awaitServers(ns, root)

	n.Log("a renewal, and an issued Secret that somebody deletes")
	was := n.served(ns)
	n.renew(ns, "main-broker")
	n.takesOver(ns, "main-broker", was["main-broker"])
	n.ok(n.secrets(ns).Delete(n.soon(), "main-safekeeper-2-issued"))
	n.takesOver(ns, "main-safekeeper-2", was["main-safekeeper-2"])
	n.awaitServers(ns, root)

	n.Log("another authority is trusted before it is used")
	n.renew(ns, "root")
	other := n.another(ns, "root", root)
	n.eventually("the issuer has the other authority", func() bool {
		n.renew(ns, "main-broker")
		n.issued(ns, "main-broker")
		issued, err := n.secrets(ns).Get(n.soon(), "main-broker-issued")
		n.ok(err)
		return string(issued.Data["ca.crt"]) == string(other)
	})
	both := string(other) + string(root)
	n.eventually("both authorities are trusted", func() bool {
		s, err := n.secrets(ns).Get(n.soon(), "main-broker-tls")
		n.ok(err)
		return string(s.Data["ca.crt"]) == both
	})
	for _, name := range members {
		s, err := n.secrets(ns).Get(n.soon(), name+"-tls")
		n.ok(err)
		n.check(s, root) // no program has started with the other authority
	}
	n.gone(ns)
}

func (n neon) testClusterIssuer() {
	ns := n.cluster.Namespace(n)
	root := n.authority(n.system, "whole", p256)
	i := &certmanager.ClusterIssuer{Spec: certmanager.IssuerSpec{IssuerConfig: certmanager.IssuerConfig{
		CA: &certmanager.CAIssuer{SecretName: "whole"},
	}}}
	i.Name = "whole"
	_, err := kube.For[certmanager.ClusterIssuer](n.client, kind).Create(n.soon(), i)
	n.ok(err)
	n.order(ns, "ClusterIssuer", "whole")
	n.awaitServers(ns, root)
	n.gone(ns)
}

// testInterrupted deletes a cluster whose certificates are being issued.
func (n neon) testInterrupted() {
	ns := n.cluster.Namespace(n)
	n.authority(ns, "root", p256)
	n.issuer(ns, "neon", certmanager.IssuerConfig{CA: &certmanager.CAIssuer{SecretName: "root"}})
	n.order(ns, "Issuer", "neon")
	n.eventually("a Certificate is there", func() bool { return len(n.left(ns)) > 0 })
	n.gone(ns)
}

func (n neon) testRefused() {
	ns := n.cluster.Namespace(n)
	n.authority(ns, "rsa", certmanager.CertificatePrivateKey{Algorithm: certmanager.RSAKeyAlgorithm, Size: 2048})
	n.issuer(ns, "neon", certmanager.IssuerConfig{CA: &certmanager.CAIssuer{SecretName: "rsa"}})
	n.order(ns, "Issuer", "neon")
	n.says(ns, "safekeeper-certificate/1", "main-safekeeper-1-issued: the certificate is signed with SHA256-RSA: "+
		"computes need an issuer with an ECDSA key of P-256")
	n.gone(ns)
}

// testDue has a certificate that is renewed each few seconds.
func (n neon) testDue() {
	ns := n.cluster.Namespace(n)
	root := n.authority(ns, "root", p256)
	n.issuer(ns, "neon", certmanager.IssuerConfig{CA: &certmanager.CAIssuer{SecretName: "root"}})
	n.order(ns, "Issuer", "neon")
	n.awaitServers(ns, root)
	was := n.served(ns)["main-controller"]
	_, err := n.certificates(ns).Modify(n.soon(), "main-controller", func(c *certmanager.Certificate) error {
		c.Spec.Duration = &metav1.Duration{Duration: time.Hour}
		c.Spec.RenewBefore = &metav1.Duration{Duration: time.Hour - 5*time.Second}
		return nil
	})
	n.ok(err)
	n.renew(ns, "main-controller") // no certificate is made for another duration alone
	for range 3 {
		n.eventually("the certificate is renewed", func() bool { return n.served(ns)["main-controller"] != was })
		was = n.served(ns)["main-controller"]
	}
	n.gone(ns)
}

// another waits until the Secret of an authority has another one than it had.
func (n neon) another(namespace, name string, was []byte) []byte {
	n.Helper()
	s, err := n.secrets(namespace).Until(n.soon(), name, func(s *corev1.Secret) bool {
		return !bytes.Equal(s.Data[corev1.TLSCertKey], was)
	})
	n.ok(err)
	return s.Data[corev1.TLSCertKey]
}
