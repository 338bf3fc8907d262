package webhook

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/internal/hooks"
)

// Start implements [hooks.Serving].
func (s serving) Start(p hooks.Program) (hooks.Started, error) {
	if err := s.Check(p.Definitions); err != nil {
		return hooks.Started{}, err
	}
	if p.InPod {
		p.At.Namespace = p.Client.Namespace() // a chart may be installed into any
	}
	started := hooks.Started{Definitions: s.Definitions(p.At, p.Definitions), Stop: func(context.Context) {}}
	switch way := cmp.Or(p.Way, hooks.WayTo(p.Client.Config().Rest.Host, p.InPod)); way {
	case hooks.ByService:
		if p.Options.TLS != nil || p.Options.CertDir != "" {
			return started, Serve(p.Options, nil, s...)
		}
		issuer, err := s.Issuer(p.At)
		if err != nil {
			return started, err
		}
		issuer.Client, issuer.Logger = p.Client, p.Options.Logger
		return started, Serve(p.Options, issuer, s...)
	case hooks.ByURL:
		return s.develop(p)
	case hooks.Off:
		cmp.Or(p.Options.Logger, slog.Default()).Warn(
			"the API server does not call the webhooks of this process (-webhooks changes that)")
		return started, nil
	default:
		return started, fmt.Errorf("-webhooks=%s: it is %s, %s or %s", way, hooks.ByService, hooks.ByURL, hooks.Off)
	}
}

// unregisterTime is how long a program that ends waits for the API server to forget its hooks.
const unregisterTime = 5 * time.Second

// develop registers hooks by URL while the program runs.
func (s serving) develop(p hooks.Program) (hooks.Started, error) {
	l, err := listen(Options{Logger: p.Options.Logger, Metrics: p.Options.Metrics, Ignore: true}, s)
	if err != nil {
		return hooks.Started{}, err
	}
	log := cmp.Or(p.Options.Logger, slog.Default())
	as := at(p.At)
	as.Name += "-dev"
	as.Development, as.URL, as.CABundle, as.Service = true, l.url, l.bundle, ""
	p.Options.Runnables = append(slices.Clip(p.Options.Runnables), controller.Runnable{
		Name: "webhooks", EveryReplica: true,
		Run: func(ctx context.Context) error {
			if err := l.create(ctx, p.Client, as); err == nil {
				log.Info("webhooks registered", "url", l.url)
			} else if ctx.Err() == nil {
				log.Warn("the API server does not call the webhooks of this process", "error", err)
			}
			return nil
		},
	})
	return hooks.Started{Definitions: as.definitions(p.Definitions), Stop: func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTime)
		defer cancel()
		if err := l.remove(ctx); err != nil {
			log.Warn("the webhooks of this process stay registered, with the failure policy Ignore", "error", err)
		}
		l.close()
	}}, nil
}
