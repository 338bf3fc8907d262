package realnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/cluster/internal/build"
	"github.com/pintle-go/pintle/cluster/internal/pki"
	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

const (
	containerd = "containerd"
	kubelet    = "kubelet"
	kubeProxy  = "kube-proxy"

	// containerGrace is the time that containers have to end by themselves.
	containerGrace = 5 * time.Second
)

// A run is one life of the node.
type run struct {
	env     supervisor.Environment
	builder build.Builder
	binary  string // with the kubelet and kube-proxy
	runtime string
	network *Network
	id      string
	state   string // the cluster's state directory
	dir     string // the node's part of it
	cgroup  cgroup
	client  *http.Client // the administrator's
	log     *slog.Logger

	group     *process.Group // in the node's namespaces
	processes map[string]*process.Process
	forwarder *forwarder
	failed    chan *process.Process // those that have ended
	over      chan struct{}         // closed when nobody looks at failed any more
}

// Run runs the node until ctx ends. It calls ready when the node is Ready and cluster DNS
// answers. Stopping takes a few seconds: containers get SIGTERM and some time, then
// everything is killed. Run returns when no process, mount, interface or rule is left.
func (n *Node) Run(ctx context.Context, env supervisor.Environment, ready func()) (err error) {
	defer n.network.Release()
	r := &run{
		env: env, builder: n.Builder, runtime: n.Runtime, network: n.network, log: env.Log,
		state:     string(env.Plane.Dir),
		dir:       nodeDir(string(env.Plane.Dir)),
		processes: map[string]*process.Process{},
		failed:    make(chan *process.Process),
		over:      make(chan struct{}),
	}
	defer close(r.over)
	r.id = clusterID(r.state)
	r.cgroup = nodeCgroup(r.id)
	if r.client, err = rest.HTTPClientFor(env.Admin); err != nil {
		return fmt.Errorf("make client of the API server: %w", err)
	}
	defer func() {
		if stopped := r.stop(context.WithoutCancel(ctx)); err == nil {
			err = stopped
		}
	}()
	if err := r.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("start real node: %w", err)
	}
	n.tell(r.processes[kubelet], nil)
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-r.failed:
			if r.processes[p.Name] == p {
				return p.Err()
			}
		case a := <-n.acts:
			err := r.restartKubelet(ctx, r.startKubelet)
			n.tell(r.processes[kubelet], err)
			a.done <- err
		}
	}
}

// restartKubelet kills the kubelet, if the last restart has left one, and starts another one.
func (r *run) restartKubelet(ctx context.Context, start func(context.Context) error) error {
	if p := r.processes[kubelet]; p != nil {
		if err := p.Kill(); err != nil {
			return err
		}
		delete(r.processes, kubelet) // its end ends nothing else
		<-p.Done()
	}
	return start(ctx)
}

func (r *run) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var building sync.WaitGroup
	defer building.Wait()
	defer cancel()
	var archives []string
	var built error
	building.Go(func() { archives, built = r.build(ctx) })

	steps := []func(context.Context) error{
		r.makeHome,
		r.connect,
		r.announce,
		r.startContainerd,
		func(ctx context.Context) error {
			if building.Wait(); built != nil {
				return built
			}
			return r.loadImages(ctx, archives)
		},
		r.startKubelet,
		r.startProxy,
		r.usePodRange,
		r.applyDNS,
		r.awaitReady,
		r.awaitDNS,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	r.log.Info("the real node is ready", "name", Name, "address", r.network.Node)
	return nil
}

// makeHome makes directories, the control group and the namespaces.
func (r *run) makeHome(context.Context) error {
	if err := makeDirs(r.dir); err != nil {
		return fmt.Errorf("make the node's directories: %w", err)
	}
	if err := pki.WriteFile(markFile(r.state), nil, 0o600); err != nil {
		return err
	}
	if err := r.cgroup.make(); err != nil {
		return err
	}
	if err := changeHost(); err != nil {
		return fmt.Errorf("prepare this machine: %w", err)
	}
	var err error
	if r.group, err = process.NewGroup(r.state); err != nil {
		return err
	}
	return r.group.Do(func() error { return enter(r.dir) })
}

func (r *run) connect(context.Context) error {
	var thread int
	if err := r.group.Do(func() error { thread = unix.Gettid(); return nil }); err != nil {
		return err
	}
	if err := connect(r.id, r.network, thread); err != nil {
		return err
	}
	if err := r.group.Do(func() error { return configureInside(r.network) }); err != nil {
		return err
	}
	if err := openWorld(r.id, r.network); err != nil {
		return err
	}
	port := uint16(r.env.Plane.Ports.APIServer)
	from, to := netip.AddrPortFrom(r.network.Host, port), netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	var err error
	r.forwarder, err = forward(from, to, r.log)
	return err
}

// build builds the programs and the images of the node. It returns the archives of the
// images.
func (r *run) build(ctx context.Context) (archives []string, err error) {
	if r.binary, err = r.builder.Program(ctx, build.Node); err != nil {
		return nil, err
	}
	for _, pkg := range []string{pause, coredns} {
		archive, err := r.builder.Image(ctx, pkg)
		if err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

func (r *run) startContainerd(ctx context.Context) error {
	path, err := lookPath(containerd)
	if err != nil {
		return err
	}
	if r.runtime == "" {
		if r.runtime, err = findRuntime(); err != nil {
			return err
		}
	}
	plugins, err := cniDir()
	if err != nil {
		return err
	}
	var snapshotter string
	err = r.group.Do(func() (err error) {
		snapshotter, err = snapshotterFor(filepath.Join(r.dir, "containerd"))
		return err
	})
	if err != nil {
		return err
	}
	config := filepath.Join(r.dir, "containerd.toml")
	if err := pki.WriteFile(
		config, []byte(containerdConfig(r.runtime, plugins, build.ImageName(pause), snapshotter)), 0o600,
	); err != nil {
		return err
	}
	// containerd is a foreign program, which does not watch a lifeline.
	if err := r.launch(
		process.Spec{Name: containerd, Path: path, Args: []string{"--config", config}, Env: systemPath(), Foreign: true},
	); err != nil {
		return err
	}
	socket, err := containerdSocketOf(r.state)
	if err != nil {
		return err
	}
	return r.await(ctx, "containerd to answer", func() error {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err
	})
}

func (r *run) loadImages(ctx context.Context, archives []string) error {
	for _, archive := range archives {
		if err := Load(ctx, r.state, archive); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) startKubelet(context.Context) error {
	client, server := nodeIdentity(r.network.Node)
	kubeconfig, err := r.kubeconfig(kubelet, client)
	if err != nil {
		return err
	}
	serving, err := r.env.Plane.CA.Issue(filepath.Join(r.dir, "kubelet-serving"), server)
	if err != nil {
		return fmt.Errorf("issue the kubelet's certificate: %w", err)
	}
	var resolv strings.Builder
	for _, s := range nameservers() {
		fmt.Fprintf(&resolv, "nameserver %v\n", s)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "resolv.conf"), []byte(resolv.String()), 0o644); err != nil {
		return fmt.Errorf("write the pods' resolv.conf: %w", err)
	}
	config := filepath.Join(r.dir, "kubelet.json")
	if err := writeJSON(config, r.kubeletConfig(serving)); err != nil {
		return err
	}
	return r.launch(process.Spec{
		Name: kubelet, Path: r.binary, Env: append(systemPath(), r.env.Plane.Environment()...),
		Args: []string{
			kubelet,
			"--config=" + config,
			"--kubeconfig=" + kubeconfig,
			"--root-dir=/var/lib/kubelet",
			"--hostname-override=" + Name,
			"--node-ip=" + r.network.Node.String(),
		},
	})
}

func (r *run) startProxy(context.Context) error {
	kubeconfig, err := r.kubeconfig(kubeProxy, pki.Identity{CommonName: "system:kube-proxy"})
	if err != nil {
		return err
	}
	config := filepath.Join(r.dir, "kube-proxy.json")
	if err := writeJSON(config, r.proxyConfig(kubeconfig)); err != nil {
		return err
	}
	return r.launch(
		process.Spec{
			Name: kubeProxy, Path: r.binary, Env: append(systemPath(), r.env.Plane.Environment()...),
			Args: []string{kubeProxy, "--config=" + config},
		},
	)
}

// kubeconfig writes a kubeconfig for a program of the node, which reaches the API server
// at the host's address.
func (r *run) kubeconfig(name string, id pki.Identity) (string, error) {
	pair, err := r.env.Plane.CA.Issue(filepath.Join(r.dir, name+"-client"), id)
	if err != nil {
		return "", fmt.Errorf("issue certificate of %s: %w", name, err)
	}
	file := filepath.Join(r.dir, name+".kubeconfig")
	return file, pki.Kubeconfig{
		Name: "pintle", User: id.CommonName,
		Server:    fmt.Sprintf("https://%v:%d", r.network.Host, r.env.Plane.Ports.APIServer),
		Authority: r.env.Plane.CA, Client: pair,
	}.Write(file)
}

// launch starts a process in the node's namespaces and its control group. If the process
// ends by itself, the node ends too.
func (r *run) launch(spec process.Spec) error {
	spec.Dir = r.dir
	p, err := r.group.Start(spec)
	if err != nil {
		return err
	}
	if err := r.cgroup.join(p.PID()); err != nil {
		return errors.Join(err, p.Kill()) // nothing else would end it
	}
	r.processes[spec.Name] = p
	go func() {
		<-p.Done()
		select {
		case r.failed <- p:
		case <-r.over:
		}
	}()
	return nil
}

// await calls try until it returns nil.
func (r *run) await(ctx context.Context, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		last := try()
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case p := <-r.failed:
			return fmt.Errorf("wait for %s: %w", what, p.Err())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (%w)", what, context.Cause(ctx), last)
		}
	}
}

// systemPath returns the environment with a PATH that has the directories of root's
// programs.
func systemPath() []string {
	return []string{"PATH=" + os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"}
}

// errNotYet makes await retry.
var errNotYet = errors.New("not yet")
