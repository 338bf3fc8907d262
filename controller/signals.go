package controller

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals returns a context that ends at the first SIGINT or SIGTERM, or when stop is
// called. A second signal then ends the process at once, as it would without Signals, for
// a user who does not want to wait. It is SetupSignalHandler of controller-runtime and
// shutdown_on_signal of kube-rs.
//
//	ctx, stop := controller.Signals()
//	defer stop()
//	err := controller.Run(ctx, …)
func Signals() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
