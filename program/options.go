package program

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/internal/pki"
)

// defaultAddress is the address at which a program listens in a pod, and defaultProbes the
// one at which it answers the kubelet's probes.
const (
	defaultAddress = ":8080"
	defaultProbes  = ":8081"
)

// running holds the settings of the command line for running the program.
type running struct {
	kubeconfig, context, address, leaseNamespace string
	webhooks                                     string
	lease, dev, install, force                   bool
	level                                        *slog.Level // nil: the level of the loggers
}

// define defines the flags. If the program defines one of them too, that is an error.
func (r *running) define(flags *flag.FlagSet, inPod bool) error {
	for _, name := range []string{
		"kubeconfig", "context", "log-level", "addr", "lease", "lease-namespace", "dev", "install", "force-definitions",
		"webhooks",
	} {
		if flags.Lookup(name) != nil {
			return fmt.Errorf("the program defines the flag -%s, which program.Main defines itself", name)
		}
	}
	flags.StringVar(&r.kubeconfig, "kubeconfig", "", "kubeconfig `file` to use instead of the files in KUBECONFIG")
	flags.StringVar(&r.context, "context", "", "`name` of the kubeconfig's context to use instead of the current context")
	flags.Func("log-level", "least `level` of the lines that are logged: debug, info, warn or error\n"+
		"(default: that of the program's loggers, which is info if the program does not set it)", func(text string) error {
		r.level = new(slog.Level)
		return r.level.UnmarshalText([]byte(text))
	})
	flags.StringVar(&r.address, "addr", "",
		"`address` to serve health, readiness and metrics on; \":8080\" listens on all interfaces\n"+
			"(default: the operator's port; outside a pod on loopback only)")
	flags.BoolVar(&r.lease, "lease", inPod,
		"take the operator's lease, so that no other process reconciles at the same time\n"+
			"(default: true in a pod)")
	flags.StringVar(&r.leaseNamespace, "lease-namespace", "",
		"`namespace` of the Lease\n"+
			"(default: the operator's namespace or, with -dev, that of the Lease in the cluster)")
	flags.BoolVar(&r.dev, "dev", false,
		"take the lease over from the operator in the cluster, which continues when this process ends")
	flags.BoolVar(&r.install, "install", true, "install the definitions of the operator's kinds first")
	flags.BoolVar(&r.force, "force-definitions", false,
		"replace installed definitions even if objects in the cluster need them")
	flags.StringVar(&r.webhooks, "webhooks", "",
		"how the API server calls the operator's webhooks: service, as the manifests say; url, at a port of\n"+
			"loopback that is registered while the program runs, with the failure policy Ignore; or off\n"+
			"(default: service in a pod; elsewhere url if the API server is on this machine, else off)")
	return nil
}

// logger returns a logger, or the default one for nil, with the level of the command line.
func (r *running) logger(l *slog.Logger) *slog.Logger {
	if r.level == nil {
		return l
	}
	return slog.New(leveled{cmp.Or(l, slog.Default()).Handler(), *r.level})
}

// leveled is a handler with another level. The level of slog's default logger alone would
// not do, because a program may have made its loggers itself.
type leveled struct {
	slog.Handler
	level slog.Level
}

func (h leveled) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level}
}

func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level}
}

// options returns the options for the controllers.
func (r *running) options(op Operator, inPod bool) (controller.Options, error) {
	o := op.Options
	o.Logger = r.logger(o.Logger)
	o.Address = cmp.Or(o.Address, defaultAddress)
	if inPod {
		o.ProbeAddress = cmp.Or(o.ProbeAddress, defaultProbes)
	} else {
		o.ProbeAddress = "" // there is no kubelet
	}
	mounted := op.Install.TLSSecret != ""
	switch {
	case inPod && mounted:
		o.CertDir = cmp.Or(o.CertDir, pki.MountDir)
	case !inPod:
		_, port, err := net.SplitHostPort(o.Address)
		if err != nil {
			return o, fmt.Errorf("read the operator's address: %w", err)
		}
		o.Address = net.JoinHostPort("127.0.0.1", port)
		if mounted {
			o.CertDir = "" // the Secret is mounted in a pod only
		}
	}
	o.Address = cmp.Or(r.address, o.Address)
	if r.dev && o.Lease.Name == "" {
		return o, &usageError{errors.New("-dev: the operator has no lease to take over: " +
			"this process and the one in the cluster would reconcile at the same time")}
	}
	o.Lease.TakeOver = o.Lease.TakeOver || r.dev
	o.Lease.Namespace = cmp.Or(r.leaseNamespace, o.Lease.Namespace)
	if o.Lease.Name != "" && !r.lease && !r.dev {
		log := cmp.Or(o.Logger, slog.Default())
		log.Info("this process takes no lease, so another process may reconcile at the same time: set -lease to take it",
			"lease", o.Lease.Name)
		o.Lease.Name = ""
	}
	return o, nil
}

// deployed returns an operator with the command line and the addresses of its pods.
func deployed(o Operator) Operator {
	o.Options.Address = cmp.Or(o.Options.Address, defaultAddress)
	o.Options.ProbeAddress = cmp.Or(o.Options.ProbeAddress, defaultProbes)
	if len(o.Definitions) > 0 {
		o.Install.Args = append([]string{"-install=false"}, o.Install.Args...)
	}
	return o
}
