package webhook

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// Way is how the API server reaches a program.
type Way string

const (
	// ByService is by the Service of a program in the cluster.
	ByService Way = "service"
	// ByURL is by a port of loopback. The program registers its hooks while it runs, each with the
	// failure policy Ignore: a program that is killed blocks nobody.
	ByURL Way = "url"
	// Off means that the API server does not call the program.
	Off Way = "off"
)

// WayTo returns how an API server at a host, such as https://127.0.0.1:6443, reaches a program.
func WayTo(host string, inPod bool) Way {
	_, host, _ = strings.Cut(host, "//")
	switch {
	case inPod:
		return ByService
	case strings.HasPrefix(host, "127.") || strings.HasPrefix(host, "localhost") || strings.HasPrefix(host, "[::1]"):
		return ByURL
	}
	return Off
}

// Program is a program that serves hooks. Package program makes one of an operator.
type Program struct {
	// Way is by default the one that [WayTo] returns for the Client.
	Way   Way
	InPod bool
	// Client is that of the issuer of the certificate, or of the registration by URL.
	Client *kube.Client
	// Options are those of the program. Start adds to them.
	Options *controller.Options
	// At is where the printed configurations lead.
	At Registration
	// Certified is true if the options have a certificate.
	Certified bool
	// Definitions are those that the program installs.
	Definitions []*crd.Definition
}

// Started is what has been made for a [Program].
type Started struct {
	// Definitions have the address of their conversion.
	Definitions []*crd.Definition
	// Stop is called after the program has ended.
	Stop func(context.Context)
}

// Start makes the API server call hooks when a program runs with the options. With a URL it listens
// at once, so that the API server can convert objects while the definitions are installed.
func (p Program) Start(hooks ...Hook) (Started, error) {
	for _, d := range p.Definitions {
		if Converts(d) && !Converted(d, hooks...) {
			return Started{}, fmt.Errorf("definition %s has functions that convert, which nobody calls: "+
				"add webhook.Convert of it to the webhooks", d.Name)
		}
	}
	if err := Check(hooks...); err != nil || len(hooks) == 0 {
		return Started{p.Definitions, func(context.Context) {}}, err
	}
	return hooks[0].start(p, hooks)
}

func (h *hook) start(p Program, hooks []Hook) (Started, error) {
	if p.InPod {
		p.At.Namespace = p.Client.Namespace() // a chart may be installed into any
	}
	s := Started{p.At.Definitions(p.Definitions...), func(context.Context) {}}
	switch way := cmp.Or(p.Way, WayTo(p.Client.Config().Rest.Host, p.InPod)); way {
	case ByService:
		if p.Certified {
			return s, h.serve(p.Options, nil, hooks)
		}
		issuer, err := h.issuer(p.At, hooks)
		if err != nil {
			return s, err
		}
		issuer.Client, issuer.Logger = p.Client, p.Options.Logger
		return s, h.serve(p.Options, issuer, hooks)
	case ByURL:
		return h.develop(p, hooks)
	case Off:
		cmp.Or(p.Options.Logger, slog.Default()).Warn(
			"the API server does not call the webhooks of this process (-webhooks changes that)")
		return s, nil
	default:
		return s, fmt.Errorf("-webhooks=%s: it is %s, %s or %s", way, ByService, ByURL, Off)
	}
}

// unregisterTime is how long a program that ends waits for the API server to forget its hooks.
const unregisterTime = 5 * time.Second

// develop registers hooks by URL while the program runs.
func (h *hook) develop(p Program, hooks []Hook) (Started, error) {
	l, err := h.listen(Options{Logger: p.Options.Logger, Metrics: p.Options.Metrics, Ignore: true}, hooks)
	if err != nil {
		return Started{}, err
	}
	log := cmp.Or(p.Options.Logger, slog.Default())
	as := p.At
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
	return Started{as.Definitions(p.Definitions...), func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTime)
		defer cancel()
		if err := l.remove(ctx); err != nil {
			log.Warn("the webhooks of this process stay registered, with the failure policy Ignore", "error", err)
		}
		l.close()
	}}, nil
}
