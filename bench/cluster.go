package main

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pintle-go/pintle/kubetest"
)

// serverOnly is the cluster for measuring stores: no controller takes processor time or
// changes the loaded objects.
var serverOnly = kubetest.Options{Private: true, ServerOnly: true}

// wholeCluster is the cluster for measuring operators: it has all controllers, and nodes
// on which pods become ready.
var wholeCluster = kubetest.Options{Private: true, Nodes: 5}

// startCluster returns the cluster to measure on and a function that ends it.
func startCluster(
	ctx context.Context, out io.Writer, o options, own kubetest.Options,
) (*rest.Config, func() error, error) {
	if o.kubeconfig != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
		if err != nil {
			return nil, nil, fmt.Errorf("read kubeconfig: %w", err)
		}
		fmt.Fprintf(out, "Using the cluster of %s\n", o.kubeconfig)
		return cfg, func() error { return nil }, nil
	}
	fmt.Fprintln(out, "Starting a cluster; the first time Kubernetes is built, which takes minutes")
	cluster, err := kubetest.Open(ctx, own)
	if err != nil {
		return nil, nil, err
	}
	return cluster.Config(), cluster.Close, nil
}
