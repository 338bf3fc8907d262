// Package kubetest gives Go tests a real Kubernetes API.
//
//	func TestOperator(t *testing.T) {
//		cluster := kubetest.Start(t, kubetest.Options{})
//		config, namespace := cluster.Config(), cluster.Namespace(t)
//		…
//	}
//
// It builds and runs the cluster command of this repository: nothing has to be
// installed but Go, and nothing is downloaded but Go modules. It links none of
// Kubernetes itself.
//
// # The first time
//
// Kubernetes is built from source once, and again when its version changes.
// That takes minutes (about six on two cores), and the default limit of go test
// is ten. Build it before, or give the tests longer:
//
//	go run github.com/pintle-go/pintle/cluster@VERSION build
//	go test -timeout 30m ./...
//
// After that a cluster is there in about five seconds.
//
// # Sharing
//
// Tests that ask for the same Options share a cluster: all tests of one package,
// and all packages of one run of go test. It ends with that run. What one test
// does in its own [Cluster.Namespace] no other sees; what has no namespace, such
// as a CustomResourceDefinition, all see. Two runs of go test share nothing.
// A test that wants a cluster for itself, to disturb it (Kill, Pause and so on
// of a [Component]), says so with Options.Private.
//
// # What stays behind
//
// Nothing, also when the test crashes or is killed: a cluster watches the
// process that it belongs to, by process id and start time, and ends within a
// second or so of it. That process is the go command that runs the tests, or
// the test binary when it was not started by go. Should the cluster's own
// supervisor be killed too, its components end by themselves within seconds,
// and the next cluster to start removes its files.
//
// # Another cluster
//
// With KUBETEST_CLUSTER=current in the environment, shared clusters are not
// started: the one that KUBECONFIG names is used, with its namespaces labelled
// pintle.dev/kubetest and deleted after the test. Private ones are still local.
package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ClusterVariable is the environment variable that may say "current".
const ClusterVariable = "KUBETEST_CLUSTER"

// Options say what cluster a test needs. The zero value is a control plane
// without nodes, shared with others: pods can be created, and stay Pending.
type Options struct {
	// Private is a cluster of the test's own. It ends with the test.
	Private bool

	// Nodes is the number of simulated nodes, on which pods become Running
	// and Ready and Jobs complete.
	Nodes int

	// ServerOnly leaves the controller-manager and the scheduler away: what
	// is written stays as it was written, nothing is garbage-collected, a
	// deleted namespace stays Terminating.
	ServerOnly bool

	// APIServerArgs are further flags for kube-apiserver, such as
	// "--feature-gates=WatchList=false".
	APIServerArgs []string
}

// A Cluster is a Kubernetes that tests can use. It is safe for concurrent use.
type Cluster struct {
	config     *rest.Config
	kubeconfig string
	options    Options

	// Of a local cluster: the command that controls it and its directory.
	command string
	dir     string
}

// Start returns a cluster, which it starts when there is none to share. It
// fails the test when it cannot. The test need not stop it.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	cluster, err := Open(t.Context(), options)
	if err != nil {
		t.Fatalf("kubetest: %v", err)
	}
	if options.Private {
		t.Cleanup(func() {
			if err := cluster.Close(); err != nil {
				t.Errorf("kubetest: %v", err)
			}
		})
	}
	return cluster
}

// Open is [Start] for those who have no test at hand, such as TestMain. A
// private cluster must be closed.
func Open(ctx context.Context, options Options) (*Cluster, error) {
	if options.Private {
		return start(ctx, options)
	}
	if os.Getenv(ClusterVariable) == "current" {
		return current(options)
	}
	return shared.open(ctx, options)
}

// Close ends a private cluster and removes all that belongs to it. For a shared
// one it does nothing: others may use it, and it ends with the run of the tests.
func (c *Cluster) Close() error {
	if !c.options.Private {
		return nil
	}
	return c.run(context.Background(), "down", "--quiet")
}

// Config returns a configuration for clients, as a cluster administrator
// without a client-side rate limit. It is the caller's own to change.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of a kubeconfig file for programs that a test
// starts. It is empty for a cluster that is not local: they find that one in
// the environment as the test does.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// sharing remembers the shared clusters of this process.
type sharing struct {
	mu       sync.Mutex
	clusters map[string]*Cluster
}

// A test binary's tests have nothing else in common that could hold it.
var shared sharing

func (s *sharing) open(ctx context.Context, options Options) (*Cluster, error) {
	key, err := options.key()
	if err != nil {
		return nil, err
	}
	s.mu.Lock() // also while one starts: it is better waited for than started twice
	defer s.mu.Unlock()
	if c := s.clusters[key]; c != nil {
		return c, nil
	}
	c, err := start(ctx, options)
	if err != nil {
		return nil, err
	}
	if s.clusters == nil {
		s.clusters = map[string]*Cluster{}
	}
	s.clusters[key] = c
	return c, nil
}

func current(options Options) (*Cluster, error) {
	if len(options.APIServerArgs) > 0 {
		return nil, fmt.Errorf("%s=current: the flags %q cannot be given to a cluster that runs: ask for a private one", ClusterVariable, options.APIServerArgs)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%s=current: read the kubeconfig: %w", ClusterVariable, err)
	}
	config.QPS = -1
	return &Cluster{config: config, options: options}, nil
}

// start starts a local cluster, or finds that the one to share is there.
func start(ctx context.Context, options Options) (*Cluster, error) {
	launcher, err := buildLauncher(ctx)
	if err != nil {
		return nil, err
	}
	owner, dir, err := options.place()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, command: launcher, dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := c.run(ctx, "up", options.upArgs(owner)...); err != nil {
		return nil, err
	}
	c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the cluster's kubeconfig: %w", err), c.Close())
	}
	c.config.QPS = -1
	return c, nil
}
