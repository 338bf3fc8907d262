package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// install installs the definitions before the controllers run. A definition that is being
// deleted can be installed only after the deletion, which may wait for finalizers that
// these controllers remove. Then install returns at once, and the definitions are
// installed while the controllers run. If ctx ends before, the error is nil.
func install(
	ctx context.Context, client *kube.Client, force bool, o *controller.Options, definitions []*crd.Definition,
) error {
	apply := crd.Install
	if force {
		apply = crd.Replace
	}
	run := func(ctx context.Context) error {
		err := apply(ctx, client, definitions...)
		if err != nil && ctx.Err() != nil {
			slog.Info("stopped before the definitions were installed", "waitedFor", err)
			return nil //nolint:nilerr // the end was asked for
		}
		return explain(err)
	}
	for _, d := range definitions {
		there, err := kube.For[crd.Definition](client).Get(ctx, d.Name)
		if err == nil && there.DeletionTimestamp != nil {
			o.Runnables = append(slices.Clip(o.Runnables), controller.Runnable{
				Name: "install the definitions", Run: run, EveryReplica: true,
			})
			return nil
		}
	}
	return run(ctx) // which reports why a definition cannot be read
}

// explain names the flag that helps against an error of the installation.
func explain(err error) error {
	var refused *crd.IncompatibleError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("%w (the flags are -force-definitions and, to run without installing, -install=false)", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w (without that right, start the program with -install=false "+
			"once the definitions are installed)", err)
	}
	return err
}
