package controller

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals returns a context that ends at the first SIGINT or SIGTERM, or when
// stop is called. A second signal then ends the process at once, as it would
// without Signals: whoever asks twice does not want to wait.
//
//	ctx, stop := controller.Signals()
//	defer stop()
//	err := controller.Run(ctx, …)
func Signals() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
