// Package realnode makes this machine a node of a local cluster: containerd, a
// kubelet, kube-proxy and cluster DNS, so that pods are real containers. It
// needs Linux and root; [Check] says what is missing.
//
// The node lives in network and mount namespaces of its own. To it the usual
// paths (/var/lib/kubelet, /run/containerd, …) are directories of the cluster's
// state directory, and its interfaces, routes and nftables rules are nobody
// else's: it does not collide with a container engine, another cluster or a
// kubelet of this machine, and what it mounted and configured is gone as soon as
// its last process is. All its processes, those of the pods included, are in one
// control group, pintle-ID, by which they are found and ended.
//
// To the host it shows one interface, pn-ID, and routes to pods and Services
// through it: both answer from the host. An nftables table pintle-ID lets pods
// reach other networks; it needs IPv4 forwarding, which is switched on if it was
// off and back off at the end. The API server, which listens on loopback, is
// forwarded to the host's address on that interface, and nowhere else.
//
// Where to read what:
//
//	node_linux.go       the life of a node, in order
//	check_linux.go      what a machine needs
//	network.go          which addresses a cluster has
//	network_linux.go    the link between host and node
//	namespace_linux.go  what the node sees of the file system
//	host_linux.go       what it changes of the host, and undoes
//	cgroup_linux.go     finding and ending its processes
//	config_linux.go     what containerd, kubelet and kube-proxy are told
//	dns.go, coredns/    cluster DNS
//	load_linux.go       images
package realnode

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pintle-go/pintle/cluster/image"
	"github.com/pintle-go/pintle/cluster/internal/build"
	"github.com/pintle-go/pintle/cluster/internal/controlplane"
)

// Name is what the node is called.
const Name = "real"

// A Node is this machine as a node of one cluster; a supervisor prepares and
// runs it.
type Node struct {
	// Builder makes the images that all pods need.
	Builder build.Builder

	// Runtime is the program that runs containers: runc or crun, whichever
	// there is, when empty.
	Runtime string

	network *Network
}

// Prepare sees whether this machine can be a node, cleans up after an earlier
// one of the same cluster, and gives the plane addresses that pods can use.
func (n *Node) Prepare(_ context.Context, plane *controlplane.Plane) error {
	if err := Check(); err != nil {
		return err
	}
	dir := string(plane.Dir)
	if err := Clean(dir); err != nil {
		return err
	}
	if n.network != nil {
		n.network.Release() // the control plane did not start, and is tried again
	}
	network, err := Reserve(dir, plane.Services)
	if err != nil {
		return err
	}
	n.network = network
	plane.Advertise, plane.Services, plane.Pods = network.Host, network.Services, network.Pods
	return nil
}

// The packages of which the node's own images are made: every pod's first
// process, and DNS.
const (
	pause   = "internal/realnode/pause"
	coredns = "internal/realnode/coredns"
)

// BuildImages makes the node's own images now, so that a start need not.
func BuildImages(ctx context.Context, b build.Builder) error {
	for _, pkg := range []string{pause, coredns} {
		if _, err := b.Image(ctx, pkg); err != nil {
			return err
		}
	}
	return nil
}

// LoadMain builds an image (of a main package, say) and loads it into the node
// of the cluster in dir. Without an Output its archive is kept nowhere.
func LoadMain(ctx context.Context, dir string, o image.Options) (result image.Result, err error) {
	if o.Output == "" {
		var temp string
		if temp, err = os.MkdirTemp("", "pintle-load-"); err != nil {
			return image.Result{}, fmt.Errorf("load image: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
		o.Output = filepath.Join(temp, "image.tar")
	}
	result, err = image.Build(ctx, o)
	if err != nil {
		return result, err
	}
	return result, Load(ctx, dir, o.Output)
}

var errNoNode = errors.New("this cluster has no real node, or it is not running")

// nodeDir is the part of a state directory that belongs to the node.
func nodeDir(dir string) string { return filepath.Join(dir, "node") }

// clusterID names what a cluster has outside its state directory.
func clusterID(dir string) string {
	hash := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%x", hash[:5])
}
