package aggregate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// Server is an aggregated API server. Client and Kinds are required.
type Server struct {
	// Client reaches the cluster that the server belongs to. The server needs the rights
	// of the role kube-system/extension-apiserver-authentication-reader and of the
	// cluster role system:auth-delegator. For admission it lists and watches namespaces,
	// webhook configurations and admission policies. For the registration it patches
	// APIServices. A Projection reads its source.
	Client *kube.Client
	// Kinds are the kinds that are served.
	Kinds []Any
	// Storage keeps the objects of Stored kinds.
	Storage Storage

	// Address is the address to listen on. Default: "127.0.0.1:8443". In a pod it
	// is ":8443" or the like.
	Address string
	// Listener, if it is set, is used instead of Address. Run closes it.
	Listener net.Listener
	// Certificate is the certificate for clients, which are kube-apiserver and the
	// probes of a pod. Default: a certificate that Run makes for this process alone, for the
	// Service of the Registration. Several replicas need one that they share.
	Certificate Certificate
	// Registration tells kube-apiserver about the server. The zero value does not.
	Registration Registration

	// Audit writes an audit log if its File is set.
	Audit Audit
	// ShutdownDelay is how long the server still accepts requests after its
	// context has ended, while /readyz already fails. In a cluster the endpoints of the
	// Service are updated during that time; a few seconds are enough there.
	ShutdownDelay time.Duration
	// Logger receives the events of the server. Default: slog.Default().
	Logger *slog.Logger
}

// drain is how long watches may take to end after the context of Run has ended.
const drain = 10 * time.Second

// Runnable returns the server as a part of a program beside its controllers. It runs in
// every replica, whether or not the replica holds the lease.
func (s Server) Runnable() controller.Runnable {
	return controller.Runnable{Name: "aggregate", Run: s.Run, EveryReplica: true}
}

// Run serves until ctx ends and all requests have been answered. It returns nil then,
// and otherwise the reason why it cannot serve.
func (s Server) Run(ctx context.Context) (failed error) {
	s.Logger = cmp.Or(s.Logger, slog.Default())
	kinds, err := s.resources()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	listener := s.Listener
	if listener == nil {
		if listener, err = net.Listen("tcp", cmp.Or(s.Address, "127.0.0.1:8443")); err != nil {
			return fmt.Errorf("listen for API requests: %w", err)
		}
	}
	defer listener.Close() // the server closes it too, once it runs
	registration := s.Registration.complete(s.Client, kinds, listener.Addr())
	identity, err := s.identity(ctx, registration)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	back, err := s.Storage.open(kinds)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, back.close()) }()

	server, ready, err := s.assemble(kinds, listener, identity, back)
	if err != nil {
		return err
	}
	server.AddPostStartHookOrDie("pintle-started", func(genericapiserver.PostStartHookContext) error {
		s.Logger.Info("the API server listens", "address", listener.Addr().String())
		return nil
	})
	registered := make(chan error, 1)
	go func() {
		err := registration.keep(ctx, s.Client, ready, identity.bundle, s.Logger)
		if err != nil {
			stop(err)
		}
		registered <- err
	}()
	go func() {
		select {
		case err := <-back.failed():
			stop(fmt.Errorf("run etcd: %w", err))
		case <-ctx.Done():
		}
	}()
	served := server.PrepareRun().RunWithContext(ctx)
	stop(nil)
	if err := errors.Join(served, <-registered); err != nil {
		return fmt.Errorf("serve the API: %w", err)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// resources returns the resources of all kinds.
func (s Server) resources() (kinds, error) {
	if s.Client == nil {
		return nil, errors.New("configure API server: the client is missing")
	}
	if len(s.Kinds) == 0 {
		return nil, errors.New("configure API server: there are no kinds to serve")
	}
	var all kinds
	for _, k := range s.Kinds {
		r, err := k.resource(s)
		if err != nil {
			return nil, fmt.Errorf("configure API server: %w", err)
		}
		if all.named(r.definition.Spec.Group, r.definition.Spec.Names.Plural) != nil {
			return nil, fmt.Errorf("configure API server: two kinds are called %s", r.definition.Name)
		}
		all = append(all, r)
	}
	return all, nil
}

// assemble puts the server together: a request is authenticated, authorized, found by the
// discovery or the OpenAPI handlers or else handled by the handler of the kinds. The
// server is ready when ready returns nil.
func (s Server) assemble(all kinds, listener net.Listener, identity *identity, back *backend) (_ *genericapiserver.GenericAPIServer, ready func() error, err error) {
	config := rest.CopyConfig(s.Client.Config().Rest)
	config.QPS = -1 // the server's priority and fairness limits requests
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	cluster := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagers))

	c := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	c.SharedInformerFactory = cluster
	c.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	c.SecureServing = &genericapiserver.SecureServingInfo{Listener: listener, Cert: identity}
	c.LoopbackClientConfig = &rest.Config{Host: listener.Addr().String()} // nothing here uses it
	c.EnableProfiling, c.EnableIndex = false, false
	c.ShutdownDelayDuration = s.ShutdownDelay
	c.ShutdownWatchTerminationGracePeriod = drain
	c.LongRunningFunc = genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), all.streams())
	recognizes, err := authenticate(&c.Config, client)
	if err != nil {
		return nil, nil, err
	}
	if err := authorize(&c.Config, client); err != nil {
		return nil, nil, err
	}
	if err := s.Audit.apply(&c.Config); err != nil {
		return nil, nil, err
	}
	if err := admit(&c.Config, all, cluster, client, config); err != nil {
		return nil, nil, err
	}
	server, err := c.Complete().New("pintle-aggregate", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, nil, fmt.Errorf("make API server: %w", err)
	}
	handler, err := newHandler(all, back, &c.Config)
	if err != nil {
		return nil, nil, err
	}
	ready = func() error { return errors.Join(recognizes(), handler.ready()) }
	if err := server.AddReadyzChecks(healthz.NamedCheck("kinds", func(*http.Request) error { return ready() })); err != nil {
		return nil, nil, err
	}
	discover(server, all, handler)
	return server, ready, describe(server, all)
}

// withoutManagers drops the managed fields of the cluster's objects: admission reads none.
func withoutManagers(o any) (any, error) {
	if object, ok := o.(interface {
		SetManagedFields([]metav1.ManagedFieldsEntry)
	}); ok {
		object.SetManagedFields(nil)
	}
	return o, nil
}
