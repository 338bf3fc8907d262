package realnode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/build"
	"github.com/pintle-go/pintle/cluster/internal/controlplane"
	"github.com/pintle-go/pintle/cluster/internal/pki"
)

// nodeObject has the fields of a Node that we read.
type nodeObject struct {
	Spec struct {
		PodCIDR string `json:"podCIDR"`
	} `json:"spec"`
	Status struct {
		Conditions []struct{ Type, Status, Message string } `json:"conditions"`
	} `json:"status"`
}

func (r *run) node(ctx context.Context) (nodeObject, error) {
	var n nodeObject
	err := r.send(ctx, http.MethodGet, "/api/v1/nodes/"+Name, "", &n)
	return n, err
}

// usePodRange waits until the node has registered and has its part of the pods' range,
// and then gives that part to the pods. Without a controller that assigns it, the node
// gets the first part.
func (r *run) usePodRange(ctx context.Context) error {
	first := netip.PrefixFrom(r.network.Pods.Addr(), 24)
	pods := first
	if r.env.Plane.Settings.Controllers {
		err := r.await(ctx, "the node to register", func() error {
			n, err := r.node(ctx)
			if err != nil {
				return err
			}
			if n.Spec.PodCIDR == "" {
				return fmt.Errorf("it has no pod range: %w", errNotYet)
			}
			pods, err = netip.ParsePrefix(n.Spec.PodCIDR)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := addRoute(r.id, r.network, pods); err != nil {
		return err
	}
	config, err := cniConfig(pods)
	if err != nil {
		return err
	}
	return pki.WriteFile(filepath.Join(r.dir, "cni", "10-pintle.conflist"), config, 0o644)
}

// announce makes the Service kubernetes lead to the API server. An earlier run may have had another port.
func (r *run) announce(ctx context.Context) error {
	all := endpoints(netip.AddrPortFrom(r.network.Host, uint16(r.env.Plane.Ports.APIServer)))
	return r.await(ctx, "the namespace default", func() error {
		for _, m := range all {
			if err := r.apply(ctx, m); err != nil {
				return fmt.Errorf("announce the API server: %w", err)
			}
		}
		return nil
	})
}

func (r *run) apply(ctx context.Context, m manifest) error {
	return r.send(ctx, http.MethodPatch, m.path+"?fieldManager=pintle&force=true", m.yaml, nil)
}

func (r *run) applyDNS(ctx context.Context) error {
	all, err := dnsManifests(build.ImageName(coredns), r.env.Plane.DNSService(), nameservers())
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := r.apply(ctx, m); err != nil {
			return fmt.Errorf("set up DNS: %w", err)
		}
	}
	return nil
}

func (r *run) awaitReady(ctx context.Context) error {
	return r.await(ctx, "the node to be ready", func() error {
		n, err := r.node(ctx)
		if err != nil {
			return err
		}
		message := "it has not reported a condition"
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" {
				if c.Status == "True" {
					return nil
				}
				message = c.Message
			}
		}
		return fmt.Errorf("%s: %w", message, errNotYet)
	})
}

// awaitDNS sends queries, as pods do, until DNS answers. A Node object of an earlier run
// can still be Ready, but an answer comes from a pod that runs now.
func (r *run) awaitDNS(ctx context.Context) error {
	if !r.env.Plane.Settings.Controllers {
		return nil // no controller creates the pod
	}
	server := netip.AddrPortFrom(r.env.Plane.DNSService(), 53).String()
	resolver := net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server)
		},
	}
	err := r.await(ctx, "cluster DNS to answer", func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+controlplane.Domain+".")
		return err
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %s", err, r.dnsPods(ctx))
	}
	return err
}

// dnsPods says how the pods of DNS are, and to which addresses its Service leads.
func (r *run) dnsPods(ctx context.Context) string {
	const selector = "?labelSelector=k8s-app%3Dkube-dns"
	var pods struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				Phase, PodIP string
				Conditions   []struct{ Type, Status, Message string }
			}
		}
	}
	var slices struct {
		Items []struct {
			Endpoints []struct {
				Addresses  []string
				Conditions struct{ Ready *bool }
			}
		}
	}
	err := r.send(ctx, http.MethodGet, "/api/v1/namespaces/kube-system/pods"+selector, "", &pods)
	if err == nil {
		err = r.send(ctx, http.MethodGet, "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"+selector, "", &slices)
	}
	if err != nil {
		return err.Error()
	}
	said := []string{fmt.Sprintf("DNS has %d pods", len(pods.Items))}
	for _, p := range pods.Items {
		said = append(said, fmt.Sprintf("%s is %s at %s", p.Metadata.Name, p.Status.Phase, p.Status.PodIP))
		for _, c := range p.Status.Conditions {
			if c.Status != "True" {
				said = append(said, fmt.Sprintf("not %s: %s", c.Type, c.Message))
			}
		}
		if log := r.lastLog("kube-system", p.Metadata.Name); log != "" {
			said = append(said, "its log ends with "+log)
		}
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			said = append(said, fmt.Sprintf("the Service leads to %v (ready: %t)", e.Addresses, ready))
		}
	}
	return strings.Join(said, "; ")
}

// lastLog returns the last lines of a pod's containers. The container runtime writes a line as TIME, STREAM,
// TAG and text.
func (r *run) lastLog(namespace, pod string) string {
	const most = 4
	files, err := filepath.Glob(filepath.Join(r.dir, shadows["/var/log/pods"], namespace+"_"+pod+"_*", "*", "*.log"))
	if err != nil {
		return err.Error()
	}
	var said []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		for _, line := range lines[max(0, len(lines)-most):] {
			if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
				line = fields[3]
			}
			if line != "" {
				said = append(said, fmt.Sprintf("%q", line))
			}
		}
	}
	return strings.Join(said, ", ")
}

// send sends a request as the administrator. A body is an apply patch.
func (r *run) send(ctx context.Context, method, path, body string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, r.env.Plane.Server()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(data))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s %s: decode answer: %w", method, path, err)
	}
	return nil
}
