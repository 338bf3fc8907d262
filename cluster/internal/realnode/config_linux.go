package realnode

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pintle-go/pintle/cluster/internal/controlplane"
	"github.com/pintle-go/pintle/cluster/internal/pki"
)

const containerdSocket = "/run/containerd/containerd.sock" // as the node sees it

// containerdConfig is in the format of containerd 1.5 to 1.7. containerd 2.x also reads
// it.
func containerdConfig(runtime, cni, pause, snapshotter string) string {
	return fmt.Sprintf(`version = 2
disabled_plugins = [
	"io.containerd.internal.v1.opt",
	"io.containerd.snapshotter.v1.btrfs",
	"io.containerd.snapshotter.v1.zfs",
	"io.containerd.snapshotter.v1.devmapper",
]

[plugins."io.containerd.grpc.v1.cri"]
	sandbox_image = %q
	netns_mounts_under_state_dir = true
	# Without the capability to lower it (some virtual machines, containers)
	# no sandbox would start.
	restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd]
	snapshotter = %q
	default_runtime_name = "node"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.node]
	runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.node.options]
	BinaryName = %q
	SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
	bin_dir = %q
`, pause, snapshotter, runtime, cni)
}

// cniConfig gives each pod a link of its own to the node, without a bridge between pods.
// So every packet passes the node's rules, even one from a pod to a Service whose pod is
// on the same node.
func cniConfig(pods netip.Prefix) ([]byte, error) {
	return json.MarshalIndent(map[string]any{
		"cniVersion": "0.4.0",
		"name":       "pintle",
		"plugins": []any{
			map[string]any{
				"type": "ptp",
				"ipam": map[string]any{
					"type":    "host-local",
					"ranges":  []any{[]any{map[string]any{"subnet": pods.String()}}},
					"routes":  []any{map[string]any{"dst": "0.0.0.0/0"}},
					"dataDir": "/var/lib/cni/networks",
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
		},
	}, "", "  ")
}

// kubeletConfig returns the kubelet's configuration.
func (r *run) kubeletConfig(serving pki.Pair) map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",

		"address":           r.network.Node.String(),
		"tlsCertFile":       serving.CertFile,
		"tlsPrivateKeyFile": serving.KeyFile,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": r.env.Plane.CA.CertFile},
		},
		"authorization": map[string]any{"mode": "Webhook"},

		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"clusterDNS":               []string{r.env.Plane.DNSService().String()},
		"clusterDomain":            controlplane.Domain,
		"resolvConf":               filepath.Join(r.dir, "resolv.conf"),
		"volumePluginDir":          "/var/lib/kubelet/plugins",
		"maxPods":                  250,

		"cgroupDriver":           "cgroupfs",
		"cgroupRoot":             "/" + r.cgroup.name,
		"failCgroupV1":           false,
		"failSwapOn":             false,
		"enforceNodeAllocatable": []string{},
		"makeIPTablesUtilChains": false,
		"oomScoreAdj":            0,

		// The disk belongs to the user, so the node does not act on its fill level.
		"evictionHard": map[string]string{
			"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
			"imagefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,

		// Clusters are small, and their users wait for them.
		"kubeAPIQPS":                100,
		"kubeAPIBurst":              200,
		"registryPullQPS":           0,
		"serializeImagePulls":       false,
		"shutdownGracePeriod":       "0s",
		"nodeStatusReportFrequency": "1m0s",
	}
}

func (r *run) proxyConfig(kubeconfig string) map[string]any {
	return map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"mode":               "nftables",
		"clientConnection":   map[string]any{"kubeconfig": kubeconfig},
		"hostnameOverride":   Name,
		"clusterCIDR":        r.network.Pods.String(),
		"detectLocalMode":    "ClusterCIDR",
		"bindAddress":        r.network.Node.String(),
		"healthzBindAddress": "127.0.0.1:10256",
		"metricsBindAddress": "127.0.0.1:10249",
		"oomScoreAdj":        0,
		// The size of the connection table is left to the machine's administrator.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}

func writeJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return pki.WriteFile(file, data, 0o600)
}

// nameservers returns the host's nameservers that pods can reach. systemd's resolver, for
// example, listens on loopback and keeps the real nameservers in a file of its own.
func nameservers() []netip.Addr {
	for _, file := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var servers []netip.Addr
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			if len(fields) < 2 || fields[0] != "nameserver" {
				continue
			}
			// Pods have IPv4 addresses only.
			if a, err := netip.ParseAddr(fields[1]); err == nil && !a.IsLoopback() && a.Is4() {
				servers = append(servers, a)
			}
		}
		if len(servers) > 0 {
			return servers
		}
	}
	return nil
}

// snapshotterFor returns overlayfs unless dir is on a file system that cannot be a layer
// of it (another overlay). It runs on the node's thread, so that no other process sees
// its mounts.
func snapshotterFor(dir string) (string, error) {
	trial := filepath.Join(dir, "overlay-trial")
	at := func(name string) string { return filepath.Join(trial, name) }
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.MkdirAll(at(name), 0o755); err != nil {
			return "", fmt.Errorf("try overlayfs: %w", err)
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", at("lower"), at("upper"), at("work"))
	name := "overlayfs"
	if err := unix.Mount("overlay", at("merged"), "overlay", 0, options); err != nil {
		name = "native"
	} else if err := unix.Unmount(at("merged"), unix.MNT_DETACH); err != nil {
		return "", fmt.Errorf("try overlayfs: %w", err)
	}
	if err := os.RemoveAll(trial); err != nil {
		return "", fmt.Errorf("try overlayfs: %w", err)
	}
	return name, nil
}

func nodeIdentity(node netip.Addr) (client, serving pki.Identity) {
	client = pki.Identity{CommonName: "system:node:" + Name, Organizations: []string{"system:nodes"}}
	serving = client
	serving.DNSNames = []string{Name}
	serving.IPs = []net.IP{node.AsSlice()}
	return client, serving
}
