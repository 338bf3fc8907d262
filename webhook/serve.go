package webhook

import (
	"context"
	"crypto/tls"
	"slices"
	"sync/atomic"

	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/controller"
)

// Serve adds to the options of a program what serves hooks at its Address: a route for their
// paths and, if issuer is not nil, its certificate, a runnable that keeps it, and a check that
// it is there. Every replica answers. Package program does this for the Webhooks of an operator. Its
// counterpart is GetWebhookServer of controller-runtime's manager.Manager.
//
// The API server reaches the program by HTTPS alone. Without an issuer the options have TLS or
// CertDir.
func Serve(o *controller.Options, issuer *certificate.Issuer, hooks ...Hook) error {
	if err := Check(hooks...); err != nil || len(hooks) == 0 {
		return err
	}
	return hooks[0].serve(o, issuer, hooks)
}

func (h *hook) serve(o *controller.Options, issuer *certificate.Issuer, hooks []Hook) error {
	var stopping atomic.Bool
	handler, err := Handler(Options{Logger: o.Logger, Metrics: o.Metrics, Draining: stopping.Load}, hooks...)
	if err != nil {
		return err
	}
	o.Routes = append(slices.Clip(o.Routes),
		controller.Route{Pattern: prefix, Handler: handler, MaxBody: maxConversion})
	for _, each := range hooks {
		if b := each.base(); b.verb == converts {
			o.Converts = append(slices.Clip(o.Converts), b.kind.GVK)
		}
	}
	run := func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
	if issuer != nil {
		run = issuer.Run
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: issuer.GetCertificate}
		o.Checks = append(slices.Clip(o.Checks),
			controller.Check{Name: "certificate of the webhooks", Ready: issuer.Ready})
	}
	o.Runnables = append(slices.Clip(o.Runnables), controller.Runnable{
		Name: "webhooks", EveryReplica: true,
		Run: func(ctx context.Context) error {
			context.AfterFunc(ctx, func() { stopping.Store(true) })
			return run(ctx)
		},
	})
	return nil
}
