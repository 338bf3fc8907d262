package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

func disturbances() []string { return supervisor.Actions }

// disturb performs an action on a component of a running cluster.
func disturb(ctx context.Context, t target, action string, args []string) error {
	flags, err := t.parse(action, "COMPONENT", args, nil)
	if err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name one component: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, or " +
			"to restart it, the kubelet of a real node")
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	client, err := clientOf(dir)
	if err != nil {
		return err
	}
	return client.Act(ctx, flags.Arg(0), action)
}

// compact makes etcd forget all earlier revisions.
func compact(ctx context.Context, t target, args []string) error {
	if _, err := t.parse("compact", "", args, nil); err != nil {
		return err
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	client, err := clientOf(dir)
	if err != nil {
		return err
	}
	return client.Compact(ctx)
}

// clientOf returns a client of a cluster that runs.
func clientOf(dir state.Dir) (*supervisor.Client, error) {
	running, err := dir.Supervised()
	switch {
	case err != nil:
		return nil, err
	case running:
		return supervisor.NewClient(dir), nil
	case dir.Exists():
		return nil, fmt.Errorf("the cluster in %s is not running: start it with up", dir)
	}
	return nil, fmt.Errorf("there is no cluster in %s: start one with up, or choose another one with --name or --dir", dir)
}
