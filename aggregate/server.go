package aggregate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/responsewriter"
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
	// quotas, whose status it updates, webhook configurations and admission policies. A
	// Projection reads its source. Rights has them all.
	Client *kube.Client
	// Kinds are the kinds that are served.
	Kinds []Any
	// Storage keeps the objects of Stored kinds.
	Storage Storage

	// Address is the address to listen on. Default: "127.0.0.1:8443". In a pod it
	// is ":8443" or the like.
	Address string
	// GetCertificate returns the current certificate for clients, which are kube-apiserver and
	// the probes of a pod. It is that of tls.Config, is called every minute with an empty hello, and
	// Run waits for its first certificate. Package certificate has several. Somebody else must
	// keep the caBundle of the APIServices right, as a certificate.Issuer does. The key is one
	// that package crypto/x509 can encode. Default: a certificate that Run makes for this
	// process alone, which is enough for Registration.Local.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Registration says how kube-apiserver finds the server.
	Registration Registration

	// Audit says which requests are written to a log, as kube-apiserver's flags do. Make it with
	// [options.NewAuditOptions], and set PolicyFile and LogOptions.Path. It keeps up to 100 files of 100 MiB,
	// unless LogOptions.MaxBackups is lower. Default: none.
	Audit *options.AuditOptions
	// ShutdownDelay is how long the server still accepts requests after its
	// context has ended, while /readyz already fails. In a cluster the endpoints of the
	// Service are updated during that time; a few seconds are enough there. Clients are told to
	// connect again with their next request.
	ShutdownDelay time.Duration
	// Logger receives the events of the server. Default: slog.Default().
	Logger *slog.Logger

	handler *atomic.Pointer[http.Handler] // of the server while it runs
}

// drain is how long watches may take to end after the context of Run has ended.
const drain = 10 * time.Second

// AddTo makes the server a part of a program beside its controllers. It runs in every replica,
// whether or not the replica holds the lease. The program's /readyz fails until the server is
// ready, and again when it ends.
func (s Server) AddTo(o *controller.Options) {
	s.handler = new(atomic.Pointer[http.Handler])
	o.Runnables = append(o.Runnables, controller.Runnable{Name: "aggregate", Run: s.Run, EveryReplica: true})
	o.Checks = append(o.Checks, controller.Check{Name: "aggregate", Ready: s.ready})
}

// ready asks the server as its probes do, without a connection.
func (s Server) ready(ctx context.Context) error {
	handler := s.handler.Load()
	if handler == nil {
		return errors.New("the API server does not serve yet")
	}
	req := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/readyz"}}
	answer := responsewriter.NewInMemoryResponseWriter()
	(*handler).ServeHTTP(answer, req.WithContext(ctx))
	if answer.RespCode() != http.StatusOK {
		return fmt.Errorf("the API server is not ready: %s", bytes.TrimSpace(answer.Data()))
	}
	return nil
}

// Run serves until ctx ends and all requests have been answered. It returns nil then,
// and otherwise the reason why it cannot serve.
func (s Server) Run(ctx context.Context) (failed error) {
	s.Logger, s.handler = cmp.Or(s.Logger, slog.Default()), cmp.Or(s.handler, new(atomic.Pointer[http.Handler]))
	kinds, err := s.resources()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	registration := s.Registration.complete(s.Client, kinds)
	identity, bundle, err := s.identity(ctx, registration)
	if err != nil {
		return unlessOver(ctx, err)
	}
	// The storage may have to wait for another process. Until it is open, nobody can connect: a
	// client that could would wait for an answer, instead of finding another server.
	back, err := s.Storage.open(ctx, kinds, s.Logger)
	if err != nil {
		return unlessOver(ctx, err)
	}
	defer func() { failed = errors.Join(failed, back.close()) }()
	listener, err := net.Listen("tcp", cmp.Or(s.Address, "127.0.0.1:8443"))
	if err != nil {
		return fmt.Errorf("listen for API requests: %w", err)
	}
	defer listener.Close()
	// The first part that fails ends the others.
	parts, ctx := errgroup.WithContext(ctx)
	serving := &genericapiserver.SecureServingInfo{Listener: listener, Cert: identity}
	server, err := s.assemble(ctx, kinds, serving, back)
	if err != nil {
		return unlessOver(ctx, err)
	}
	prepared := server.PrepareRun()
	s.handler.Store(&prepared.Handler.Director) // the bounds for requests do not concern it
	defer s.handler.Store(nil)
	s.Logger.Info("the API server listens", "address", listener.Addr().String())
	parts.Go(func() error { return prepared.RunWithContext(ctx) })
	parts.Go(func() error { return registration.keep(ctx, s, listener.Addr().(*net.TCPAddr), bundle) })
	parts.Go(func() error { return back.inside.keep(ctx) })
	return parts.Wait()
}

// unlessOver returns an error if ctx has not ended: the end of a wait is no failure then.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // nobody waits any more
	}
	return err
}

// resources returns the resources of all kinds.
func (s Server) resources() (kinds, error) {
	if s.Client == nil {
		return nil, errors.New("configure API server: the client is missing")
	}
	if err := errors.Join(s.Audit.Validate()...); err != nil {
		return nil, fmt.Errorf("configure API server: audit: %w", err)
	}
	var all kinds
	for _, k := range s.Kinds {
		r, err := k.resource(s)
		if err != nil {
			return nil, fmt.Errorf("configure API server: %w", err)
		}
		if all.named(r.groupResource()) != nil {
			return nil, fmt.Errorf("configure API server: two kinds are called %s", r.definition.Name)
		}
		all = append(all, r)
	}
	if len(all.served()) == 0 {
		return nil, errors.New("configure API server: there are no kinds to serve")
	}
	slices.SortFunc(all, func(a, b *resource) int { return cmp.Compare(a.definition.Name, b.definition.Name) })
	return all, nil
}

// connection returns how the server connects to the cluster. It has no limit for requests, because
// kube-apiserver's priority and fairness limits them.
func (s Server) connection() *rest.Config {
	config := rest.CopyConfig(s.Client.Config().Rest)
	config.QPS, config.Timeout = -1, 0
	return config
}

// assemble puts the server together: a request is authenticated, authorized, found by the
// discovery or the OpenAPI handlers or else handled by the handler of the kinds.
func (s Server) assemble(
	ctx context.Context, all kinds, serving *genericapiserver.SecureServingInfo, back *backend,
) (*genericapiserver.GenericAPIServer, error) {
	client, err := kubernetes.NewForConfig(s.connection())
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	c := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	c.SharedInformerFactory = informers.NewSharedInformerFactory(client, 0)
	c.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	c.SecureServing, c.ClientConfig = serving, s.connection()
	c.LoopbackClientConfig = &rest.Config{Host: serving.Listener.Addr().String()} // nothing here uses it
	c.EnableProfiling, c.EnableIndex = false, false
	c.ShutdownDelayDuration = s.ShutdownDelay
	c.ShutdownWatchTerminationGracePeriod = drain
	c.LongRunningFunc = all.streams
	c.BuildHandlerChainFunc = func(next http.Handler, c *genericapiserver.Config) http.Handler {
		return sendElsewhere(ctx, boundBodies(next, c))
	}
	access := errors.Join(authenticate(&c.Config, client), authorize(&c.Config, client))
	if err := errors.Join(access, admit(c, all, client), s.Audit.ApplyTo(&c.Config)); err != nil {
		return nil, err
	}
	handler, err := newHandler(all, back, &c.Config)
	if err != nil {
		return nil, err
	}
	c.AddReadyzChecks(healthz.NamedCheck("kinds", handler.ready))
	server, err := c.Complete().New("pintle-aggregate", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("make API server: %w", err)
	}
	discover(server, all, handler)
	return server, describe(server, all)
}

// sendElsewhere makes clients connect again after ctx has ended. By then another server may be behind
// the address. kube-apiserver would go on to use its connection, and later be refused.
func sendElsewhere(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			w.Header().Set("Connection", "close") // in HTTP/2 it becomes a frame GOAWAY
		}
		next.ServeHTTP(w, r)
	})
}
