package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/hooks"
	"github.com/pintle-go/pintle/kube"
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
		issuer.Client, issuer.Logger, issuer.Namespace = p.Client, p.Options.Logger, p.At.Namespace
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

// readdress gives the definitions that lead to a URL the address of the operator in the cluster. It leaves
// those to which another process has given its own.
func (s serving) readdress(ctx context.Context, p hooks.Program, url string) error {
	var failed []error
	definitions := kube.For[crd.Definition](p.Client)
	for i, d := range s.Definitions(p.At, p.Definitions) {
		if !hooks.Converts(p.Definitions[i]) {
			continue
		}
		live, err := definitions.Get(ctx, d.Name)
		if err == nil && live.Spec.Conversion != nil && live.Spec.Conversion.Webhook != nil {
			if c := live.Spec.Conversion.Webhook.ClientConfig; c != nil && c.URL != nil && strings.HasPrefix(*c.URL, url+"/") {
				patch, _ := json.Marshal(map[string]any{"url": nil, "caBundle": nil, "service": d.Spec.Conversion.Webhook.ClientConfig.Service})
				_, err = definitions.Patch(ctx, d.Name, types.MergePatchType, fmt.Appendf(nil,
					`{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"conversion":{"webhook":{"clientConfig":%s}}}}`,
					live.UID, live.ResourceVersion, patch))
			}
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = append(failed, fmt.Errorf("give definition %s its address: %w", d.Name, err))
		}
	}
	return errors.Join(failed...)
}

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
		if err := errors.Join(l.remove(ctx), s.readdress(ctx, p, l.url)); err != nil {
			log.Warn("the webhooks of this process stay registered, with the failure policy Ignore", "error", err)
		}
		l.close()
	}}, nil
}
