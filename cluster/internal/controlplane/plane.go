// Package controlplane has the certificates, kubeconfigs, ports and flags that the
// programs of a control plane are started with.
//
// It starts no program: package supervisor does.
package controlplane

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/pintle-go/pintle/cluster/internal/pki"
	"github.com/pintle-go/pintle/cluster/internal/state"
)

// Default address ranges within a cluster. 5,000 Services would use up a smaller range of
// services; each node gets a /24 for its pods.
var (
	ServiceCIDR = netip.MustParsePrefix("10.96.0.0/16")
	PodCIDR     = netip.MustParsePrefix("10.244.0.0/14")
)

// Domain is the cluster's DNS domain.
const Domain = "cluster.local"

// A Plane describes one control plane: the places of its files, its authorities and its
// ports. [Prepare] makes it, and it does not change.
type Plane struct {
	Dir      state.Dir
	Binary   string // the kubernetes binary
	Settings state.Settings

	// CA signs the certificates of the API server, its clients and kubelets. Etcd signs
	// for etcd and its client. FrontProxy signs for the API server as a client of
	// aggregated servers. They are separate, as in a real cluster: a certificate of one
	// authority is worth nothing to servers of another.
	CA         *pki.Authority
	Etcd       *pki.Authority
	FrontProxy *pki.Authority

	Ports Ports

	// Advertise is the address at which pods reach the API server. It cannot be a loopback address. If it
	// is not set, there is no such address.
	Advertise netip.Addr

	// Services and Pods are the address ranges. Default: ServiceCIDR and PodCIDR. If the
	// addresses are real, clusters must not share them.
	Services, Pods netip.Prefix

	// Bootstrapped reports whether the API server has made the objects that it makes at its
	// first start.
	Bootstrapped bool

	serviceAccount pki.KeyPair
	files          files
}

// Ports are the ports on 127.0.0.1.
type Ports struct {
	APIServer         int
	Etcd              int
	ControllerManager int
	Scheduler         int
}

// files are the paths of credentials that components get by flags.
type files struct {
	apiServer, apiServerEtcd, apiServerKubelet, apiServerProxy pki.Pair
	etcd, controllerManager, scheduler                         pki.Pair
	authentication                                             string
}

// Prepare opens or makes the authorities in the state directory, issues all certificates
// and writes all kubeconfigs and configuration files.
func Prepare(p Plane) (*Plane, error) {
	if !p.Services.IsValid() {
		p.Services = ServiceCIDR
	}
	if !p.Pods.IsValid() {
		p.Pods = PodCIDR
	}
	steps := []func(*Plane) error{openAuthorities, issueCertificates, writeKubeconfigs, writeAuthentication}
	for _, step := range steps {
		if err := step(&p); err != nil {
			return nil, fmt.Errorf("prepare control plane: %w", err)
		}
	}
	return &p, nil
}

// Server is the API server's URL for clients on this machine.
func (p *Plane) Server() string { return loopbackURL(p.Ports.APIServer) }

// APIServerService is the address of the API server for pods: the first address of the
// services' range, as in every cluster.
func (p *Plane) APIServerService() netip.Addr { return p.service(1) }

// DNSService is the address of DNS for pods: the tenth, as in most clusters.
func (p *Plane) DNSService() netip.Addr { return p.service(10) }

func (p *Plane) service(n byte) netip.Addr {
	a := p.Services.Masked().Addr().As4()
	a[3] += n
	return netip.AddrFrom4(a)
}

// EtcdURL is the URL of etcd.
func (p *Plane) EtcdURL() string { return loopbackURL(p.Ports.Etcd) }

// EtcdClient is the API server's client certificate for etcd.
func (p *Plane) EtcdClient() pki.Pair { return p.files.apiServerEtcd }

// IssueKubeconfig writes a kubeconfig for a client of the API server to kubeconfigs/NAME
// in the state directory, and returns its path. The identity's common name is the user,
// and its organizations are the groups: a kubelet's are system:node:NAME and
// system:nodes.
func (p *Plane) IssueKubeconfig(name string, id pki.Identity) (string, error) {
	file := p.Dir.Path("kubeconfigs", name)
	return file, p.writeKubeconfig(file, name, id)
}

func (p *Plane) writeKubeconfig(file, name string, id pki.Identity) error {
	client, err := p.CA.Issue(p.Dir.Path("pki", "client-"+name), id)
	if err != nil {
		return err
	}
	return pki.Kubeconfig{
		Name:      "pintle-" + p.Settings.Name,
		User:      id.CommonName,
		Server:    p.Server(),
		Authority: p.CA,
		Client:    client,
	}.Write(file)
}

func loopbackURL(port int) string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
