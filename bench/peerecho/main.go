// Command peerecho is the Echo operator of operators/echo on controller-runtime, as a
// user of controller-runtime would write it. It has a manager with its defaults (metrics
// and health served) and leader election, with the lease released at the end. It has a
// cache of Echoes, Deployments and Services. It uses controllerutil.CreateOrUpdate, which
// reads from that cache and sends nothing if nothing changes.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pintle-go/pintle/bench/peerecho/api"
)

// concurrency is the default of our operator.
const concurrency = 16

func main() {
	address := flag.String("addr", "127.0.0.1:8080", "address of metrics")
	health := flag.String("health", "127.0.0.1:0", "address of health and readiness")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	if err := run(*address, *health); err != nil {
		fmt.Fprintln(os.Stderr, "peerecho:", err)
		os.Exit(1)
	}
}

func run(address, health string) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(api.AddToScheme(scheme))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: address},
		HealthProbeBindAddress: health,
		// Our operator does the same.
		LeaderElection:                true,
		LeaderElectionID:              "peerecho",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&api.Echo{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(&reconciler{client: mgr.GetClient(), scheme: scheme})
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
