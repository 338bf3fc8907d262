package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/program"
)

const (
	launcher       = "github.com/pintle-go/pintle/cluster"
	simulatedNodes = 2
)

// Cluster is the cluster that the operators run on.
type Cluster struct {
	Client     *kube.Client
	Namespace  string
	Env        []string // for the operators
	Kubeconfig string   // to be shown to the user; empty if the user has set it
	Kubectl    string   // the command for the user to run
	Local      bool
}

// AskedForCurrent reports whether the environment variable CLUSTER asks for the
// cluster that KUBECONFIG names.
func AskedForCurrent() (bool, error) {
	switch asked := os.Getenv("CLUSTER"); asked {
	case "", "local":
		return false, nil
	case "current":
		return true, nil
	default:
		return false, fmt.Errorf(
			"CLUSTER=%s: want \"current\" for the cluster that KUBECONFIG names, or nothing for a local cluster", asked,
		)
	}
}

// Session is one run of a command that runs operators.
type Session struct {
	Out *Output
	// FieldManager is the field manager of the objects that the command itself writes.
	FieldManager string
	// Dir is the command's own directory.
	Dir string
	// Undo holds the steps that are undone in the end.
	Undo *Undo
}

// Cluster returns the cluster to use. If current is set, it is the one that KUBECONFIG
// names, otherwise a local one that Cluster starts.
func (s Session) Cluster(ctx context.Context, current bool) (*Cluster, error) {
	if !current {
		return s.start(ctx)
	}
	client, err := s.client("")
	if err != nil {
		return nil, err
	}
	s.Out.Say("using the cluster at %s, namespace %s", client.Config().Rest.Host, client.Namespace())
	return &Cluster{Client: client, Namespace: client.Namespace(), Kubectl: "kubectl"}, nil
}

func (s Session) start(ctx context.Context) (*Cluster, error) {
	command, home := filepath.Join(s.Dir, "cluster"), filepath.Join(s.Dir, "state")
	if err := buildLauncher(ctx, s.Dir); err != nil {
		return nil, err
	}
	s.Out.Say(
		"starting Kubernetes with %d simulated nodes (the first start builds Kubernetes, which takes minutes)",
		simulatedNodes,
	)
	s.Undo.Add("end the cluster", func(ctx context.Context) error {
		return s.await(ctx, command, "--dir="+home, "down", "--delete", "--quiet")
	})
	// The cluster also ends by itself when its owner, this process, has ended.
	err := s.await(ctx, command, "--dir="+home, "up", "--ephemeral",
		"--owner="+strconv.Itoa(os.Getpid()), "--nodes="+strconv.Itoa(simulatedNodes))
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(home, "kubeconfig")
	client, err := s.client(kubeconfig)
	if err != nil {
		return nil, err
	}
	return &Cluster{
		Client:     client,
		Namespace:  client.Namespace(),
		Env:        []string{"KUBECONFIG=" + kubeconfig},
		Kubeconfig: kubeconfig,
		Kubectl:    command + " --dir=" + home + " kubectl",
		Local:      true,
	}, nil
}

// buildLauncher builds the cluster command into a directory. If this program was built by
// version, as "go run PACKAGE@VERSION" does, the command has the same version: the module
// in the working directory is the user's and need not know it. Otherwise the working
// directory is in a checkout.
func buildLauncher(ctx context.Context, dir string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), launcher)
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Sum != "" {
		build = exec.CommandContext(ctx, "go", "install", launcher+"@"+info.Main.Version)
		build.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=")
	}
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the cluster command: %w\n%s", err, out)
	}
	return nil
}

// await runs the cluster command to its end.
func (s Session) await(ctx context.Context, path string, args ...string) error {
	p, err := program.Start(program.Spec{Path: path, Args: args, Line: s.Out.Lines("cluster")})
	if err != nil {
		return err
	}
	code, err := p.Wait(ctx)
	if err != nil {
		// The command undoes its own work.
		_ = p.Signal(syscall.SIGTERM)
		<-p.Done()
		return err
	}
	if code != 0 {
		return fmt.Errorf("the command cluster %s ended with status %d", args[1], code)
	}
	return nil
}

// client returns a client for the given kubeconfig, or for the one that KUBECONFIG names.
func (s Session) client(kubeconfig string) (*kube.Client, error) {
	return kube.Config{Kubeconfig: kubeconfig, FieldManager: s.FieldManager}.Connect()
}
