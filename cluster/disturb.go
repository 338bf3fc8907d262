package main

import (
	"context"
	"errors"

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
	return supervisor.NewClient(dir).Act(ctx, flags.Arg(0), action)
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
	return supervisor.NewClient(dir).Compact(ctx)
}
