// Command foo keeps the Foos of a namespace in a store and serves them over
// HTTP:
//
//	GET /foos                      all of them, sorted by name
//	GET /foos/{name}               one
//	GET /foos/{namespace}/{name}   one, where all namespaces are served
//	GET /healthz                   ok while the program runs
//	GET /readyz                    ok once the store has been filled
//	GET /metrics                   for Prometheus
//
// It continues to serve its last state while the API server cannot be reached; the metric
// pintle_store_last_event_age_seconds tells the age of that state.
//
// On SIGINT or SIGTERM it accepts no further connections, answers the requests in flight,
// stops the store and ends with status 0. A second signal ends it at once.
//
// See server.go for the answers and deploy/ for the manifests to run it in a cluster.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

const (
	// allNamespaces stands for all namespaces. No namespace can have this name.
	allNamespaces = "*"
	// drainTime is the longest time that requests in flight may take when foo stops. It
	// is less than a pod's 30 s.
	drainTime = 20 * time.Second
)

// started is the earliest time that the program's own code can read.
var started = time.Now()

// options are the options of the command line.
type options struct {
	addr      string
	namespace string
}

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2) // package flag has printed the reason
	}
	if os.Getenv("GOGC") == "" {
		// The program is small, and its garbage, mostly from scrapes, would otherwise be
		// a third of its memory.
		debug.SetGCPercent(50)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the program at once
	if err := run(ctx, log, o); err != nil {
		log.Error("foo failed", "error", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("foo", flag.ContinueOnError)
	flags.StringVar(&o.addr, "addr", "127.0.0.1:8080", "address to listen on; \":8080\" listens on all interfaces")
	flags.StringVar(
		&o.namespace, "namespace", os.Getenv("NAMESPACE"),
		"namespace whose Foos are served, \"*\" for all (default: the environment variable NAMESPACE,\nor else the namespace of the kubeconfig's context or of the pod)",
	)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if flags.NArg() > 0 {
		err = fmt.Errorf("foo takes no argument %q", flags.Arg(0))
	} else if wrong := validation.IsDNS1123Label(o.namespace); o.namespace != "" && o.namespace != allNamespaces && wrong != nil {
		err = fmt.Errorf("%q cannot be the name of a namespace: %s", o.namespace, wrong[0])
	}
	if err != nil {
		fmt.Fprintln(flags.Output(), err)
	}
	return o, err
}

func run(ctx context.Context, log *slog.Logger, o options) error {
	m := metrics.New()
	client, err := kube.Config{Logger: log, Observe: m.Observe}.Connect()
	if err != nil {
		return err
	}
	namespace := cmp.Or(o.namespace, client.Namespace())
	foos := kube.For[Foo](client, fooKind).ReadOnly()
	if namespace != allNamespaces {
		foos = foos.In(namespace)
	}

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.addr)
	if err != nil {
		return fmt.Errorf("open %s for HTTP: %w", o.addr, err)
	}
	// The store outlives ctx, because requests in flight then still read it.
	storing, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	store := foos.Open(storing)
	var filling sync.WaitGroup
	defer func() {
		stopStore()
		filling.Wait()
		<-store.Done()
		client.Close()
	}()
	m.AddStore("foos", store)
	filling.Go(func() {
		if err := store.Sync(storing); err == nil {
			log.Info("store is filled", "objects", store.Stats().Objects, "sinceStart", time.Since(started))
		}
	})

	log.Info("serving", "address", listener.Addr().String(), "namespace", namespace)
	return serve(ctx, log, listener, newServer(cache{store, foos}, namespace, m.Handler()))
}

// serve serves until ctx ends, and then until the requests in flight have been answered.
func serve(ctx context.Context, log *slog.Logger, listener net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	log.Info("stopping")
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err := srv.Shutdown(draining)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(fmt.Errorf("requests that took longer than %s were interrupted", drainTime), srv.Close())
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve HTTP: %w", served))
	}
	return err
}
