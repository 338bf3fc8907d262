package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startCluster gives the cluster to measure on and what ends it.
func startCluster(ctx context.Context, out io.Writer, o options) (*rest.Config, func(), error) {
	if o.kubeconfig == "" {
		return nil, nil, errors.New("-kubeconfig is needed")
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	fmt.Fprintf(out, "Using the cluster of %s\n", o.kubeconfig)
	return cfg, func() {}, nil
}
