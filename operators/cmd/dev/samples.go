package main

import (
	"context"
	"fmt"

	"github.com/pintle-go/pintle/operators"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/local"
)

const module = "github.com/pintle-go/pintle/operators"

// samples installs the definitions of Book and Foo and applies samples.
func samples(ctx context.Context, c *local.Cluster) error {
	return apply(ctx, c, "book/crd.yaml", "foo/deploy/crd.yaml", "book/sample.yaml", "foo/sample.yaml")
}

// sampled applies a sample after the operator that installs the definition has started.
func sampled(c *local.Cluster, file string) func(context.Context, *operator) error {
	return func(ctx context.Context, o *operator) error {
		if _, err := o.running.Await(ctx, "controller runs"); err != nil {
			return err
		}
		return apply(ctx, c, file)
	}
}

// shop applies the sample of a Shop, and the storage that a local cluster lacks.
func shop(c *local.Cluster) func(context.Context, *operator) error {
	return func(ctx context.Context, o *operator) error {
		if c.Local {
			if err := apply(ctx, c, "shop/storage.yaml"); err != nil {
				return err
			}
		}
		return sampled(c, "shop/sample.yaml")(ctx, o)
	}
}

func apply(ctx context.Context, c *local.Cluster, files ...string) error {
	list, err := install.Read(operators.Files, files...)
	if err == nil {
		err = install.Apply(ctx, c.Client, c.Namespace, list...)
	}
	if err != nil {
		return fmt.Errorf("apply samples: %w", err)
	}
	return nil
}
