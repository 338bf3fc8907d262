package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// broker is the program by which safekeepers and pageservers find each other.
func broker(c *api.NeonCluster) part {
	p := part{
		about: about(c, "broker"), image: c.Spec.Image,
		args:    []string{"storage_broker", fmt.Sprintf("--listen-addr=0.0.0.0:%d", BrokerPort)},
		ports:   []corev1.ContainerPort{port("grpc", BrokerPort)},
		started: "/status", ready: "/status", resources: c.Spec.Broker.Resources,
		pullSecrets: c.Spec.ImagePullSecrets,
	}
	switch at := stageOf(c); {
	case at >= moving:
		p.args[1] = fmt.Sprintf("--listen-https-addr=0.0.0.0:%d", BrokerPort)
		p.args = append(p.args, servingFlags...)
		p.secured()
	case at >= offering:
		p.args = append(p.args, fmt.Sprintf("--listen-https-addr=0.0.0.0:%d", beside(BrokerPort)))
		p.args = append(p.args, servingFlags...)
		p.alsoSecured("https")
	}
	return p
}

// brokerURL is the broker's address for safekeepers and pageservers.
func brokerURL(c *api.NeonCluster) string { return urlOf(c, about(c, "broker").Name, BrokerPort) }
