package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// While TLS is added or removed, programs serve it at the port beside their own, which serves without TLS until
// nobody calls it any more. Upstream's programs have at most one port of each sort.
//
// Safekeepers and pageservers are known by their registrations. The URLs of the broker and of the storage
// controller are in the configurations of those. So these two have a second Service meanwhile, which leads to
// the port with TLS wherever it is: programs that are restarted at different times reach it.

// beside returns the port at which a program serves TLS as long as its own port serves without.
func beside(port int32) int32 { return port + 1 }

// securePort returns the port at which a safekeeper or pageserver with a port of its own serves TLS, nil if it
// does not.
func securePort(at stage, port int) *int {
	switch {
	case at >= closing:
		return &port
	case at >= joining:
		port++
		return &port
	}
	return nil
}

// servedPort returns the port at which the safekeeper of a StatefulSet serves TLS, nil if it does not.
func servedPort(s *appsv1.StatefulSet) *int {
	for _, c := range s.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == "https" || p.Name == "tls" {
				number := int(p.ContainerPort)
				return &number
			}
		}
	}
	return nil
}

// alsoSecured makes a part that serves TLS at the port beside its first one, with the certificate of its Service.
func (p *part) alsoSecured(name string) {
	p.ports = append(p.ports, port(name, beside(p.ports[0].ContainerPort)))
	p.certified()
}

// crossed are the components that have a second Service.
var crossed = []string{"broker", "controller"}

// crossingName returns the name of the second Service of a server.
func crossingName(server string) string { return CertificateName(server) }

// urlOf returns the URL of the broker or the storage controller for safekeepers and pageservers.
func urlOf(c *api.NeonCluster, service string, port int) string {
	scheme := "http"
	switch at := stageOf(c); {
	case at >= closing:
		scheme = "https"
	case at >= joining:
		scheme, service = "https", crossingName(service)
	}
	return fmt.Sprintf("%s://%s:%d", scheme, host(service, c.Namespace), port)
}

// crossings describes the second Services of a cluster whose TLS changes.
func (op *Operator) crossings(p *plan.Plan, c *api.NeonCluster, parts ...part) {
	by := map[string]part{}
	var components []string
	if stageOf(c).changing() {
		for _, part := range parts {
			component := part.about.Labels[componentLabel]
			by[component], components = part, append(components, component)
		}
	}
	plan.Each(p, "crossing", components, op.Services, func(_ plan.Inputs, component string) (*corev1.Service, error) {
		part := by[component]
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: crossingName(part.about.Name), Labels: part.about.Labels},
			Spec: corev1.ServiceSpec{Selector: part.about.Labels, Ports: []corev1.ServicePort{{
				Name: "https", Port: part.ports[0].ContainerPort, TargetPort: intstr.FromString("https"),
			}}},
		}, nil
	})
}

// besideFirst returns a dialer that tries the port beside the one that it is asked for first. While TLS is added
// or removed, a program serves it at one of them.
func besideFirst(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(
	ctx context.Context, network, address string,
) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, text, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("dial %q: %w", address, err)
		}
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("dial %q: %w", address, err)
		}
		next := net.JoinHostPort(host, strconv.Itoa(int(beside(int32(number)))))
		if c, err := dial(ctx, network, next); err == nil {
			return c, nil
		}
		return dial(ctx, network, address)
	}
}
