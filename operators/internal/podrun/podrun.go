// Package podrun runs the pods of simulated nodes as processes of this machine, in place of the
// kubelet that such nodes do not have. It runs pods of one container. Each pod has an address
// of its own in 127.0.0.0/8, so that it needs Linux.
//
// A process is no container: it sees the machine's files. The paths of a pod's mounts are
// replaced in its arguments, its environment and its Secrets by directories of the caller's,
// and so are further texts that the caller names. Files of Secrets that change are written again,
// unless they are mounted one by one. Probes are not run: simulated nodes say
// that each pod is ready. Names of Services are not served by DNS: a file has their
// addresses.
//
// podrun.go decides which pods run. process.go runs one, files.go has its
// files, and replace.go replaces texts.
package podrun

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/kube"
)

// Options say which pods run, and how.
type Options struct {
	Client    *kube.Client
	Namespace string
	// Labels is a selector of the pods. Default: all.
	Labels string
	// Dir is a directory of the caller's, which Account can enter. Volumes and the hosts' file
	// are in it.
	Dir string
	// Account is the account of the processes. Default: this process's.
	Account *syscall.Credential
	// Command returns the program and the first arguments of a container. Those of the pod
	// follow.
	Command func(c *corev1.Container) (path string, args []string, err error)
	// Replace returns new texts by old ones, for a pod with an address and a directory for
	// temporary files.
	Replace func(address, tmp string) map[string]string
	// Env returns further variables of a pod.
	Env func(address, tmp string) []string
	// Line returns the function that is called with each line of a pod's output. Default: the
	// output is dropped.
	Line func(pod string) func(string)
}

// HostsFile returns the file in dir with the addresses of Services, as an object in JSON: from
// hosts to addresses, and from host:port to address:port where the ports differ.
func HostsFile(dir string) string { return filepath.Join(dir, "hosts.json") }

// Runner runs pods.
type Runner struct {
	options  Options
	network  string // the first three numbers of the addresses
	pods     kube.Resource[corev1.Pod]
	services kube.Resource[corev1.Service]
	secrets  kube.Resource[corev1.Secret]

	ending chan struct{} // closed when all pods end

	mu        sync.Mutex
	addresses map[string]string // by pod
	commands  map[string][]string
}

// New returns a runner of pods. The hosts' file is there when it returns.
func New(o Options) (*Runner, error) {
	r := &Runner{
		options: o, network: fmt.Sprintf("127.%d.%d", 64+rand.N(128), rand.N(256)), //nolint:gosec // no secret
		pods:      kube.For[corev1.Pod](o.Client).In(o.Namespace),
		services:  kube.For[corev1.Service](o.Client).In(o.Namespace),
		secrets:   kube.For[corev1.Secret](o.Client).In(o.Namespace),
		addresses: map[string]string{}, commands: map[string][]string{}, ending: make(chan struct{}),
	}
	return r, r.writeHosts(map[string]string{})
}

// Commands returns the command lines that were started, by pod, with the texts that replaced
// others.
func (r *Runner) Commands() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string][]string, len(r.commands))
	for name, args := range r.commands {
		all[name] = args
	}
	return all
}

// life is one pod that runs or ends.
type life struct {
	uid  types.UID
	stop context.CancelFunc
	over chan struct{}
}

// Run runs pods until ctx ends, and returns when all processes have ended. In the end all get
// SIGTERM at once, without their preStop hooks: such a hook can wait for another pod. It is
// called once.
func (r *Runner) Run(ctx context.Context) error {
	lives := map[string]life{}
	defer func() {
		close(r.ending)
		for _, l := range lives {
			l.stop()
		}
		for _, l := range lives {
			<-l.over
		}
	}()
	// Simulated nodes change pods a few times: a short period costs little.
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if err := r.sync(ctx, lives); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// sync starts the pods that have come and ends those that have gone.
func (r *Runner) sync(ctx context.Context, lives map[string]life) error {
	wanted := map[string]*corev1.Pod{}
	for p, err := range r.pods.Labeled(r.options.Labels).List(ctx) {
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		if p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			wanted[p.Name] = p
		}
	}
	for name, l := range lives {
		if p := wanted[name]; p == nil || p.UID != l.uid {
			l.stop()
		}
	}
	for name, p := range wanted {
		before, there := lives[name]
		if there && before.uid == p.UID {
			continue
		}
		if there {
			select {
			case <-before.over:
			default:
				continue // two pods of a name never run at once
			}
		}
		of, stop := context.WithCancel(context.WithoutCancel(ctx))
		l := life{p.UID, stop, make(chan struct{})}
		lives[name] = l
		address := r.address(name)
		go func() {
			defer close(l.over)
			r.live(of, p, address)
		}()
	}
	return r.route(ctx, wanted)
}

// address returns the address of the pods of a name.
func (r *Runner) address(pod string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.addresses[pod] == "" {
		r.addresses[pod] = fmt.Sprintf("%s.%d", r.network, len(r.addresses)+1)
	}
	return r.addresses[pod]
}

// route writes the addresses of all Services that have a pod.
func (r *Runner) route(ctx context.Context, pods map[string]*corev1.Pod) error {
	hosts := map[string]string{}
	for s, err := range r.services.List(ctx) {
		if err != nil {
			return fmt.Errorf("list services: %w", err)
		}
		for name, p := range pods {
			if len(s.Spec.Selector) == 0 || !selects(s.Spec.Selector, p.Labels) {
				continue
			}
			host, address := s.Name+"."+s.Namespace+".svc", r.address(name)
			hosts[host] = address
			for _, port := range s.Spec.Ports {
				if to := target(p, port.TargetPort); to != 0 && to != port.Port {
					hosts[fmt.Sprintf("%s:%d", host, port.Port)] = fmt.Sprintf("%s:%d", address, to)
				}
			}
		}
	}
	return r.writeHosts(hosts)
}

// target returns the port of a pod that a Service leads to, 0 if the pod has none of the name.
func target(p *corev1.Pod, to intstr.IntOrString) int32 {
	if to.Type == intstr.Int {
		return to.IntVal
	}
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == to.StrVal {
				return port.ContainerPort
			}
		}
	}
	return 0
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (r *Runner) writeHosts(hosts map[string]string) error {
	text, err := json.Marshal(hosts)
	if err != nil {
		return fmt.Errorf("encode hosts: %w", err)
	}
	file := HostsFile(r.options.Dir)
	if is, err := os.ReadFile(file); err == nil && string(is) == string(text) {
		return nil
	}
	if err := os.WriteFile(file+".new", text, 0o644); err != nil { //nolint:gosec // other accounts read it
		return fmt.Errorf("write hosts: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("write hosts: %w", err)
	}
	return nil
}
