package main

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pintle-go/pintle/kubetest"
)

// startCluster gives the cluster to measure on and what ends it. Its own is an
// API server alone: no controller takes processor time or changes what was loaded.
func startCluster(ctx context.Context, out io.Writer, o options) (*rest.Config, func() error, error) {
	if o.kubeconfig != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
		if err != nil {
			return nil, nil, fmt.Errorf("read kubeconfig: %w", err)
		}
		fmt.Fprintf(out, "Using the cluster of %s\n", o.kubeconfig)
		return cfg, func() error { return nil }, nil
	}
	fmt.Fprintln(out, "Starting an API server; the first time Kubernetes is built, which takes minutes")
	cluster, err := kubetest.Open(ctx, kubetest.Options{Private: true, ServerOnly: true})
	if err != nil {
		return nil, nil, err
	}
	return cluster.Config(), cluster.Close, nil
}
