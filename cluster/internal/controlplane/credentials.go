package controlplane

import (
	"fmt"
	"net"

	"github.com/pintle-go/pintle/cluster/internal/pki"
)

var loopback = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}

func openAuthorities(p *Plane) error {
	dir := p.Dir.Path("pki")
	var err error
	if p.CA, err = pki.OpenAuthority(dir, "ca"); err != nil {
		return err
	}
	if p.Etcd, err = pki.OpenAuthority(dir, "etcd-ca"); err != nil {
		return err
	}
	if p.FrontProxy, err = pki.OpenAuthority(dir, "front-proxy-ca"); err != nil {
		return err
	}
	p.serviceAccount, err = pki.OpenKeyPair(dir, "service-account")
	return err
}

func issueCertificates(p *Plane) error {
	serving := pki.Identity{
		CommonName: "kube-apiserver",
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default",
			"kubernetes.default.svc", "kubernetes.default.svc." + Domain,
		},
		IPs: append([]net.IP{p.APIServerService().AsSlice()}, loopback...),
	}
	if p.Advertise.IsValid() {
		serving.IPs = append(serving.IPs, p.Advertise.AsSlice())
	}
	local := func(name string) pki.Identity {
		return pki.Identity{CommonName: name, DNSNames: []string{"localhost"}, IPs: loopback}
	}
	for _, c := range []struct {
		pair      *pki.Pair
		authority *pki.Authority
		name      string
		id        pki.Identity
	}{
		{&p.files.apiServer, p.CA, "apiserver", serving},
		{&p.files.apiServerKubelet, p.CA, "apiserver-kubelet-client", pki.Identity{CommonName: KubeletClient}},
		{&p.files.controllerManager, p.CA, "controller-manager", local("kube-controller-manager")},
		{&p.files.scheduler, p.CA, "scheduler", local("kube-scheduler")},
		{&p.files.etcd, p.Etcd, "etcd", local("etcd")},
		{&p.files.apiServerEtcd, p.Etcd, "apiserver-etcd-client", pki.Identity{CommonName: "kube-apiserver"}},
		{&p.files.apiServerProxy, p.FrontProxy, "front-proxy-client", pki.Identity{CommonName: frontProxyClient}},
	} {
		pair, err := c.authority.Issue(p.Dir.Path("pki", c.name), c.id)
		if err != nil {
			return fmt.Errorf("issue certificate %s: %w", c.name, err)
		}
		*c.pair = pair
	}
	return nil
}

// KubeletClient is the user name of the API server when it calls kubelets.
const (
	KubeletClient = "kube-apiserver-kubelet-client"

	// The API server has another user name when it calls aggregated servers.
	frontProxyClient = "front-proxy-client"
)

func writeKubeconfigs(p *Plane) error {
	for _, name := range []string{controllerManager, scheduler} {
		if _, err := p.IssueKubeconfig(name, pki.Identity{CommonName: "system:" + name}); err != nil {
			return fmt.Errorf("write kubeconfig of %s: %w", name, err)
		}
	}
	admin := pki.Identity{CommonName: "admin", Organizations: []string{"system:masters"}}
	if err := p.writeKubeconfig(p.Dir.Kubeconfig(), "admin", admin); err != nil {
		return fmt.Errorf("write the administrator's kubeconfig: %w", err)
	}
	return nil
}

// Only the health paths, which load balancers and people probe, are open to anonymous
// clients.
const authentication = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /livez
  - path: /readyz
  - path: /healthz
`

func writeAuthentication(p *Plane) error {
	p.files.authentication = p.Dir.Path("authentication.yaml")
	return pki.WriteFile(p.files.authentication, []byte(authentication), 0o600)
}
