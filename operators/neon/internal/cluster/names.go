package cluster

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// The ports of the programs. They are upstream's defaults where upstream has some.
const (
	BrokerPort         = 50051
	ControllerPort     = 1234
	SafekeeperPort     = 5454
	SafekeeperHTTPPort = 7676
	PageserverPort     = 6400
	PageserverHTTPPort = 9898
	storePort          = 7070
	databasePort       = 5432
)

// Labels of all children, and of the pods among them.
const (
	nameLabel      = "app.kubernetes.io/name"
	instanceLabel  = "app.kubernetes.io/instance"
	componentLabel = "app.kubernetes.io/component"
	idLabel        = "neon.pintle.dev/id"
)

// KeysName returns the name of the Secret that holds the cluster's private key.
func KeysName(cluster string) string { return cluster + "-keys" }

// OfKeys returns the name of the cluster whose keys are in a Secret, empty for another Secret.
func OfKeys(s *corev1.Secret) string {
	name := s.Labels[instanceLabel]
	if s.Name != KeysName(name) || s.Labels[componentLabel] != "cluster" {
		return ""
	}
	return name
}

// ControllerHost returns the host of the storage controller.
func ControllerHost(cluster, namespace string) string { return host(cluster+"-controller", namespace) }

// SafekeeperHost returns the host of a safekeeper. It stays the same for ever: it is known
// to the storage controller, and is in the configurations of computes.
func SafekeeperHost(cluster, namespace string, id int64) string {
	return host(safekeeperName(cluster, id), namespace)
}

// PageserverHost returns the host of a pageserver. The storage controller accepts no other.
func PageserverHost(cluster, namespace string, id int64) string {
	return host(pageserverName(cluster, id), namespace)
}

func host(service, namespace string) string { return service + "." + namespace + ".svc" }

func safekeeperName(cluster string, id int64) string {
	return cluster + "-safekeeper-" + strconv.FormatInt(id, 10)
}

func pageserverName(cluster string, id int64) string {
	return cluster + "-pageserver-" + strconv.FormatInt(id, 10)
}

// about returns the metadata of a child of a component, such as "broker".
func about(c *api.NeonCluster, component string) metav1.ObjectMeta {
	labels := map[string]string{nameLabel: "neon", instanceLabel: c.Name, componentLabel: component}
	return metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name + "-" + component, Labels: labels}
}

// aboutMember returns the metadata of a child of a safekeeper or pageserver.
func aboutMember(c *api.NeonCluster, component string, id int64) metav1.ObjectMeta {
	m := about(c, component)
	number := strconv.FormatInt(id, 10)
	m.Name += "-" + number
	m.Labels = maps.Clone(m.Labels)
	m.Labels[idLabel] = number
	return m
}
