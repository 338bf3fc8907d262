package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/program"
)

const (
	launcher       = "github.com/pintle-go/pintle/cluster"
	simulatedNodes = 2
)

// cluster is the one that the operators run on.
type cluster struct {
	client     *kube.Client
	namespace  string
	env        []string // for the operators
	kubeconfig string   // to be named to people; empty if they have named it
	kubectl    string   // how people call it
	local      bool
}

// cluster returns the cluster to use, which it starts unless there is one.
func (s settings) cluster(ctx context.Context, dir string, undo *undoing) (*cluster, error) {
	if s.current {
		return s.currentCluster()
	}
	return s.localCluster(ctx, dir, undo)
}

func (s settings) currentCluster() (*cluster, error) {
	client, err := newClient("")
	if err != nil {
		return nil, err
	}
	s.out.say("using the cluster at %s, namespace %s", client.RestConfig().Host, client.Namespace())
	return &cluster{client: client, namespace: client.Namespace(), kubectl: "kubectl"}, nil
}

func (s settings) localCluster(ctx context.Context, dir string, undo *undoing) (*cluster, error) {
	command, home := filepath.Join(dir, "cluster"), filepath.Join(dir, "state")
	build := exec.CommandContext(ctx, "go", "build", "-o", command, launcher)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the cluster command: %w\n%s", err, out)
	}
	s.out.say("starting a Kubernetes with %d simulated nodes (the first time it is built, which takes minutes)", simulatedNodes)
	undo.add("end the cluster", func(ctx context.Context) error {
		return s.await(ctx, command, "--dir="+home, "down", "--delete", "--quiet")
	})
	// If all else fails, the cluster ends because its owner has.
	err := s.await(ctx, command, "--dir="+home, "up", "--ephemeral",
		"--owner="+strconv.Itoa(os.Getpid()), "--nodes="+strconv.Itoa(simulatedNodes))
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(home, "kubeconfig")
	client, err := newClient(kubeconfig)
	if err != nil {
		return nil, err
	}
	return &cluster{
		client:     client,
		namespace:  client.Namespace(),
		env:        []string{"KUBECONFIG=" + kubeconfig},
		kubeconfig: kubeconfig,
		kubectl:    command + " --dir=" + home + " kubectl",
		local:      true,
	}, nil
}

// await runs a command of the cluster's to its end.
func (s settings) await(ctx context.Context, path string, args ...string) error {
	p, err := program.Start(program.Spec{Path: path, Args: args, Line: s.out.lines("cluster")})
	if err != nil {
		return err
	}
	code, err := p.Wait(ctx)
	if err != nil {
		// It undoes what it has begun.
		_ = p.Signal(syscall.SIGTERM)
		<-p.Done()
		return err
	}
	if code != 0 {
		return fmt.Errorf("the command cluster %s ended with status %d", args[1], code)
	}
	return nil
}
