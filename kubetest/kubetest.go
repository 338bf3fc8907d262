// Package kubetest gives Go tests a real Kubernetes API, as controller-runtime's envtest
// does.
//
//	func TestOperator(t *testing.T) {
//		cluster := kubetest.Start(t, kubetest.Options{})
//		config, namespace := cluster.Config(), cluster.Namespace(t)
//		…
//	}
//
// It builds and runs the cluster command of this repository: only Go must be installed,
// and only Go modules are downloaded. The package itself links no part of Kubernetes.
//
// # The first time
//
// Kubernetes is built from source once, and again when its version changes. That takes
// ten minutes or more on two cores, and the default limit of go test is ten. Build it
// beforehand, or give the tests more time:
//
//	go run github.com/pintle-go/pintle/cluster@VERSION build
//	go test -timeout 30m ./...
//
// After that a cluster starts in about five seconds.
//
// # Sharing
//
// Tests that ask for the same Options share a cluster: all tests of one package, and all
// packages of one run of go test. The cluster ends with that run. Each test has its own
// [Cluster.Namespace]. Cluster-scoped objects, such as a CustomResourceDefinition, are seen
// by all tests, and an operator that a test runs may see all namespaces. Two runs of go test
// share nothing. A test that needs a cluster for itself, to disturb it (Kill, Pause and so on
// of a [Component]), sets Options.Private.
//
// # Keeping
//
// With KUBETEST_KEEP=10m in the environment, a shared cluster stays for ten minutes after
// its run, and the next run of go test uses it at once. When the run has ended, also when it
// was killed, the cluster deletes the objects that were created during the run, without
// regard to finalizers. So two runs still share nothing, except: objects in the namespaces
// of Kubernetes itself (kube-system, kube-public, kube-node-lease), and changes of objects
// that the run did not create. Two runs at the same time use two clusters. A damaged cluster
// is replaced. A run with other sources of the cluster command or other Options uses another
// cluster. Private clusters end with their test.
//
// The time is a duration of package time, and that of the last run counts. A value that is
// no duration, or is negative, is an error; 0 means not to keep.
//
// # Cleanup
//
// Nothing stays behind, also when the test crashes or is killed: a cluster watches the
// process that it belongs to, by process id and start time, and ends within a second or
// so after it. That process is the go command that runs the tests, or the test binary if
// go did not start it. If the cluster's own supervisor is killed too, its components end
// by themselves within seconds, and the next cluster that starts removes its files. A kept
// cluster ends in this way after its time.
//
// # Another cluster
//
// With KUBETEST_CLUSTER=current in the environment, shared clusters are not started. The
// tests use the cluster that KUBECONFIG names instead. Their namespaces are labelled
// pintle.dev/kubetest there, and deleted after the test. Private clusters are still
// local. The counterpart is UseExistingCluster in controller-runtime's envtest.
package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterVariable is the environment variable that may say "current", as
// USE_EXISTING_CLUSTER of envtest says true. keepVariable is the environment variable for
// the time that shared clusters stay after a run.
const (
	clusterVariable = "KUBETEST_CLUSTER"
	keepVariable    = "KUBETEST_KEEP"
)

// Options describe the cluster that a test needs. The zero value is a control plane
// without nodes, shared with other tests: pods can be created, and stay Pending. The
// counterpart is envtest.Environment in controller-runtime.
type Options struct {
	// Private asks for a cluster that no other test uses. It ends with the test.
	Private bool

	// Nodes is the number of simulated nodes, on which pods become Running
	// and Ready and Jobs complete. Annotations such as [StartDelay] choose more.
	Nodes int

	// ServerOnly omits the controller-manager and the scheduler: objects stay as they
	// were written, nothing is garbage-collected, and a deleted namespace stays
	// Terminating. controller-runtime's envtest always runs so.
	ServerOnly bool

	// APIServerArgs are further flags for kube-apiserver, such as
	// "--feature-gates=WatchList=false".
	APIServerArgs []string
}

// A Cluster is a Kubernetes cluster for tests. It is safe for concurrent use. Its
// counterpart is envtest.Environment of controller-runtime.
type Cluster struct {
	config     *rest.Config
	kubeconfig string
	options    Options

	// These are set for a local cluster: the command that controls it and its directory.
	command string
	dir     string

	test string // which the cluster ends with, if there is one
}

// Start returns a cluster. It starts one if there is none to share, and fails the test if
// that fails. The test need not stop the cluster. Its counterpart is Start of
// controller-runtime's envtest.Environment.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	cluster, err := Open(t.Context(), options)
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	if options.Private {
		cluster.test = t.Name()
		t.Cleanup(func() {
			if err := cluster.Close(); err != nil {
				t.Errorf("kubetest: %v", err)
			}
		})
	}
	return cluster
}

// Open is [Start] for callers that have no test, such as TestMain. The caller must close
// a private cluster. Its counterpart is Start of controller-runtime's envtest.Environment.
func Open(ctx context.Context, options Options) (*Cluster, error) {
	keep, err := keepTime()
	if err != nil {
		return nil, err
	}
	where := os.Getenv(clusterVariable)
	switch {
	case where != "" && where != "current":
		return nil, fmt.Errorf("%s=%q: want current, or nothing", clusterVariable, where)
	case options.Nodes < 0:
		return nil, fmt.Errorf("Options.Nodes is %d: want 0 or more", options.Nodes)
	case options.Private:
		return start(ctx, options, keep)
	case where == "current":
		return current(options)
	}
	return shared.open(ctx, options, keep)
}

// Close ends a private cluster and removes all its files. It does nothing to a shared
// cluster, which other tests may use and which ends with the run of the tests. Its
// counterpart is Stop of controller-runtime's envtest.Environment.
func (c *Cluster) Close() error {
	if !c.options.Private {
		return nil
	}
	return c.run(context.Background(), "down", "--quiet")
}

// Config returns a configuration for clients: with the rights of a cluster administrator
// and without a client-side rate limit. The caller may change it. Its counterpart is the
// field Config of controller-runtime's envtest.Environment.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of a kubeconfig file for programs that a test starts. It is
// empty for a cluster that is not local. Such programs find that cluster in the
// environment, as the test does.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// sharing holds the shared clusters of this process.
type sharing struct {
	mu       sync.Mutex
	clusters map[string]*Cluster
}

// The tests of a test binary have no other common place for it.
var shared sharing

func (s *sharing) open(ctx context.Context, options Options, keep time.Duration) (*Cluster, error) {
	key, err := options.key()
	if err != nil {
		return nil, err
	}
	s.mu.Lock() // held while a cluster starts, so that a second test waits instead of starting another
	defer s.mu.Unlock()
	if c := s.clusters[key]; c != nil && c.supervised() {
		return c, nil
	}
	c, err := start(ctx, options, keep)
	if err != nil {
		return nil, err
	}
	if s.clusters == nil {
		s.clusters = map[string]*Cluster{}
	}
	s.clusters[key] = c
	return c, nil
}

// supervised reports whether the cluster's supervisor lives: it holds this lock.
func (c *Cluster) supervised() bool {
	f, err := os.Open(filepath.Join(c.dir, "supervisor.lock"))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

func current(options Options) (*Cluster, error) {
	if len(options.APIServerArgs) > 0 {
		return nil, fmt.Errorf(
			"%s=current: the flags %q cannot be given to a running cluster: set Options.Private", clusterVariable,
			options.APIServerArgs,
		)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%s=current: read the kubeconfig: %w", clusterVariable, err)
	}
	config.QPS = -1
	return &Cluster{config: config, options: options}, nil
}

// start starts a local cluster, or finds the shared one.
func start(ctx context.Context, options Options, keep time.Duration) (*Cluster, error) {
	l, err := buildLauncher(ctx)
	if err != nil {
		return nil, err
	}
	if options.Private || keep == 0 {
		dir, err := options.place(options.owner())
		if err != nil {
			return nil, err
		}
		return up(ctx, options, l, dir, 0)
	}
	for number := 0; ; number++ {
		dir, err := options.keptPlace(l.key, number)
		if err != nil {
			return nil, err
		}
		c, err := up(ctx, options, l, dir, keep)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != statusOwned {
			return c, err
		}
	}
}

// statusOwned is the exit status of the command if a kept cluster belongs to another run.
const statusOwned = 3

// up starts the cluster in a directory, or finds it there.
func up(ctx context.Context, options Options, l launcher, dir string, keep time.Duration) (*Cluster, error) {
	c := &Cluster{options: options, command: l.path, dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := c.run(ctx, "up", options.upArgs(options.owner(), keep)...); err != nil {
		return nil, err
	}
	var err error
	c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the cluster's kubeconfig: %w", err), c.Close())
	}
	c.config.QPS = -1
	return c, nil
}
