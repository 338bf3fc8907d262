// Package realnode makes this machine a node of a local cluster: containerd, a kubelet,
// kube-proxy and cluster DNS, so that pods are real containers. It needs Linux and root;
// [Check] reports missing parts.
//
// The node has network and mount namespaces of its own. The usual paths
// (/var/lib/kubelet, /run/containerd, …) are, for the node, directories in the cluster's
// state directory. No other program shares its interfaces, routes and nftables rules. So
// it does not collide with a container engine, another cluster or a kubelet of this
// machine, and its mounts and settings disappear with its last process. All of its
// processes, also those of the pods, are in one control group, pintle-ID, by which they
// are found and ended.
//
// On the host the node has one interface, pn-ID, and routes to pods and Services through
// it: both answer from the host. An nftables table pintle-ID lets pods reach other
// networks. This needs IPv4 forwarding, which the node switches on if it was off, and off
// again at the end. The API server listens on loopback; the node forwards connections to
// it from the host's address on that interface, and from no other address.
//
// Where to read on:
//
//	node_linux.go       the life of a node, in order
//	check_linux.go      the requirements for a machine
//	network.go          the addresses of a cluster
//	network_linux.go    the link between host and node
//	namespace_linux.go  the node's view of the file system
//	host_linux.go       changes of the host, and undoing them
//	cgroup_linux.go     finding and ending its processes
//	config_linux.go     the configuration of containerd, kubelet and kube-proxy
//	manifests.go        the endpoints of the API server, and cluster DNS
//	coredns/            cluster DNS
//	load_linux.go       images
package realnode

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/pintle-go/pintle/cluster/image"
	"github.com/pintle-go/pintle/cluster/internal/build"
	"github.com/pintle-go/pintle/cluster/internal/controlplane"
	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

// Name is the name of the node.
const Name = "real"

// A Node is this machine as a node of one cluster. A supervisor prepares and runs it.
type Node struct {
	// Builder builds the kubelet, kube-proxy and the images that all pods need.
	Builder build.Builder

	// Runtime is the program that runs containers: runc or crun. If it is empty, the
	// first one found is used.
	Runtime string

	network *Network
	acts    chan act

	mu     sync.Mutex
	status supervisor.ComponentStatus // the kubelet's
}

// Status returns the state of the kubelet, once it was started.
func (n *Node) Status() []supervisor.ComponentStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.status.Name == "" {
		return nil
	}
	return []supervisor.ComponentStatus{n.status}
}

// tell sets the state of the kubelet: its process, or why there is none.
func (n *Node) tell(p *process.Process, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status = supervisor.ComponentStatus{Name: "kubelet", State: "running"}
	if p != nil {
		n.status.PID = p.PID()
	} else {
		n.status.State = "failed"
	}
	if err != nil {
		n.status.LastEnd = fmt.Sprintf("restart kubelet: %v", err)
	}
}

// act is a request to restart the kubelet.
type act struct{ done chan error }

// Programs returns the programs that Act knows.
func (n *Node) Programs() []string { return []string{"kubelet"} }

// Act restarts the kubelet at once, as after a crash. The containers go on.
func (n *Node) Act(ctx context.Context, program, action string) error {
	if action != "restart" {
		return fmt.Errorf("%s can only be restarted", program)
	}
	a := act{make(chan error, 1)}
	select {
	case n.acts <- a:
	case <-ctx.Done():
		return fmt.Errorf("restart %s: %w", program, ctx.Err())
	}
	return <-a.done
}

// Prepare checks whether this machine can be a node, cleans up after an earlier node of
// the same cluster, and gives the plane addresses that pods can use.
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
	n.network, n.acts = network, make(chan act)
	plane.Advertise, plane.Services, plane.Pods = network.Host, network.Services, network.Pods
	return nil
}

// The packages of the node's own images: the first process of every pod, and DNS.
const (
	pause   = "internal/realnode/pause"
	coredns = "internal/realnode/coredns"
)

// Build builds the node's own programs and images, so that a later start need not build
// them.
func Build(ctx context.Context, b build.Builder) error {
	if _, err := b.Program(ctx, build.Node); err != nil {
		return err
	}
	for _, pkg := range []string{pause, coredns} {
		if _, err := b.Image(ctx, pkg); err != nil {
			return err
		}
	}
	return nil
}

// LoadMain builds an image (of a main package, for example) and loads it into the node of
// the cluster in dir. Without an Output its archive is not kept, and not compressed.
func LoadMain(ctx context.Context, dir string, o image.Options) (result image.Result, err error) {
	if o.Output == "" {
		var temp string
		if temp, err = os.MkdirTemp("", "pintle-load-"); err != nil {
			return image.Result{}, fmt.Errorf("load image: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
		o.Output, o.Uncompressed = filepath.Join(temp, "image.tar"), true
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

// clusterID names the cluster's resources outside its state directory.
func clusterID(dir string) string {
	hash := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%x", hash[:5])
}
