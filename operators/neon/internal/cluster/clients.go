package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// Clients has the clients of the clusters' programs. All reconciles share the client of a
// storage controller, because it keeps the limits of requests.
type Clients struct {
	// Secrets are those of the clusters' keys.
	Secrets kube.Resource[corev1.Secret]
	// Clusters, if it is set, tells a cluster that is gone from one whose Secret somebody has deleted.
	Clusters *kube.Resource[api.NeonCluster]
	// HTTP makes the requests. Default: http.DefaultClient.
	HTTP *http.Client
	// Wrap, if it is set, wraps the transport of HTTP, and those with TLS that are made of it.
	Wrap func(http.RoundTripper) http.RoundTripper

	mu          sync.Mutex
	known       map[kube.Key]knownKey
	controllers map[kube.Key]controllerClient
	secure      map[kube.Key]secureClient
	open        *http.Client // for requests without TLS, if there is a Wrap
}

// knownKey is the key in a Secret as it was at a resourceVersion.
type knownKey struct {
	token.Key
	uid             types.UID
	resourceVersion string
}

type controllerClient struct {
	*upstream.Controller
	key  token.Key // signs its tokens
	http *http.Client
}

// secureClient makes requests to the programs of one cluster with TLS.
type secureClient struct {
	*http.Client
	bundle string // of the authorities that it trusts
	call   string // the value of tlsAnnotation
}

// Transport returns the transport of an operator. It keeps a connection to each program that is asked
// every minute, a compute for example: another one costs several requests to the cluster's DNS.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 2
	return t
}

// Key returns the key of a cluster. The error is NotFound when there is no such cluster, or when a
// cluster that is being deleted has no key any more.
func (c *Clients) Key(ctx context.Context, cluster kube.Key) (token.Key, error) {
	key, _, err := c.keys(ctx, cluster)
	return key, err
}

// keys returns the key of a cluster, and the value of tlsAnnotation.
func (c *Clients) keys(ctx context.Context, cluster kube.Key) (key token.Key, call string, err error) {
	name := kube.Key{Namespace: cluster.Namespace, Name: KeysName(cluster.Name)}
	secret, err := c.Secrets.In(name.Namespace).Cached().Get(ctx, name.Name)
	if err != nil {
		if there := c.exists(ctx, cluster); apierrors.IsNotFound(err) && there != nil {
			err = there
		}
		return token.Key{}, "", fmt.Errorf("get the keys of NeonCluster %s: %w", cluster, err)
	}
	call = secret.Annotations[tlsAnnotation]
	c.mu.Lock()
	defer c.mu.Unlock()
	is, ok := c.known[cluster]
	if ok && is.uid == secret.UID && is.resourceVersion == secret.ResourceVersion {
		return is.Key, call, nil
	}
	if key, err = ParseKeys(secret); err != nil {
		return token.Key{}, "", err
	}
	if c.known == nil {
		c.known = make(map[kube.Key]knownKey)
	}
	c.known[cluster] = knownKey{key, secret.UID, secret.ResourceVersion}
	return key, call, nil
}

// exists returns an error, which is not NotFound, if a cluster exists that has had keys.
func (c *Clients) exists(ctx context.Context, cluster kube.Key) error {
	if c.Clusters == nil {
		return nil
	}
	switch is, err := c.Clusters.In(cluster.Namespace).Cached().Get(ctx, cluster.Name); {
	case apierrors.IsNotFound(err), errors.Is(err, kube.ErrNotServed):
		return nil
	case err != nil:
		return err
	case is.DeletionTimestamp != nil:
		return nil
	default:
		return lostSecret(is, KeysName(is.Name))
	}
}

// Authorities returns the content of the Secret with the authorities of a cluster with TLS, and nil
// for one without it, and one that is changed to it or from it. The error is NotFound when there is no such
// cluster.
func (c *Clients) Authorities(ctx context.Context, cluster kube.Key) (map[string][]byte, error) {
	_, call, err := c.keys(ctx, cluster)
	if err != nil || call != byTLS {
		return nil, err
	}
	return c.authorities(ctx, cluster)
}

func (c *Clients) authorities(ctx context.Context, cluster kube.Key) (map[string][]byte, error) {
	name := kube.Key{Namespace: cluster.Namespace, Name: AuthorityName(cluster.Name)}
	secret, err := c.Secrets.In(name.Namespace).Cached().Get(ctx, name.Name)
	if err != nil {
		return nil, fmt.Errorf("get the authorities of NeonCluster %s: %w", cluster, err)
	}
	if len(secret.Data[trust.Bundle]) == 0 {
		return nil, fmt.Errorf("get the authorities of NeonCluster %s: Secret %s has no %s", cluster, name, trust.Bundle)
	}
	return secret.Data, nil
}

// TLS returns the configuration of connections to the programs of a cluster, nil for one without
// TLS. The error is NotFound when there is no such cluster.
func (c *Clients) TLS(ctx context.Context, cluster kube.Key) (*tls.Config, error) {
	authorities, err := c.Authorities(ctx, cluster)
	if err != nil || authorities == nil {
		return nil, err
	}
	return trustingOnly(authorities[trust.Bundle])
}

// trustingOnly returns the configuration of connections to servers of a bundle's authorities.
func trustingOnly(bundle []byte) (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, errors.New("the Secret of the authorities has no certificate")
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// reach returns the client and the scheme for requests to the programs of a cluster.
func (c *Clients) reach(ctx context.Context, cluster kube.Key) (*http.Client, string, error) {
	_, call, err := c.keys(ctx, cluster)
	switch {
	case err != nil:
		return nil, "", err
	case call == "":
		return c.plain(), "http", nil
	}
	authorities, err := c.authorities(ctx, cluster)
	if err != nil {
		return nil, "", err
	}
	bundle := authorities[trust.Bundle]
	c.mu.Lock()
	defer c.mu.Unlock()
	is, ok := c.secure[cluster]
	if ok && is.bundle == string(bundle) && is.call == call {
		return is.Client, "https", nil
	}
	if ok {
		is.CloseIdleConnections()
	}
	made, err := trusting(c.HTTP, bundle, call == byEither)
	if err != nil {
		return nil, "", fmt.Errorf("connect to NeonCluster %s: %w", cluster, err)
	}
	if c.Wrap != nil {
		made.Transport = idling{c.Wrap(made.Transport), made.Transport.(*http.Transport)}
	}
	if c.secure == nil {
		c.secure = make(map[kube.Key]secureClient)
	}
	c.secure[cluster] = secureClient{made, string(bundle), call}
	return made, "https", nil
}

// plain returns the client for requests without TLS.
func (c *Clients) plain() *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Wrap != nil && c.open == nil {
		c.open = &http.Client{Transport: c.Wrap(c.HTTP.Transport)}
	}
	return cmp.Or(c.open, c.HTTP)
}

// idling is a transport that is wrapped.
type idling struct {
	http.RoundTripper
	*http.Transport
}

// RoundTrip makes a request by the outer transport.
func (t idling) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.RoundTripper.RoundTrip(r)
}

// trusting returns a client like another one, that trusts the authorities of a bundle only. With either it
// tries the port beside that of a program first.
func trusting(like *http.Client, bundle []byte, either bool) (*http.Client, error) {
	config, err := trustingOnly(bundle)
	if err != nil {
		return nil, err
	}
	base := http.DefaultTransport
	if like != nil && like.Transport != nil {
		base = like.Transport
	}
	transport, ok := base.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("a transport of type %T has no TLS", base)
	}
	transport = transport.Clone()
	transport.TLSClientConfig = config
	if either {
		transport.DialContext = besideFirst(transport.DialContext)
	}
	return &http.Client{Transport: transport}, nil
}

// Controller returns the client of a cluster's storage controller. The error is NotFound
// when there is no such cluster.
func (c *Clients) Controller(ctx context.Context, cluster kube.Key) (*upstream.Controller, error) {
	key, err := c.Key(ctx, cluster)
	if err != nil {
		return nil, err
	}
	client, scheme, err := c.reach(ctx, cluster)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if is, ok := c.controllers[cluster]; ok && is.key.Equal(key) && is.http == client {
		return is.Controller, nil
	}
	if c.controllers == nil {
		c.controllers = make(map[kube.Key]controllerClient)
	}
	made := upstream.NewController(upstream.Config{
		URL:  fmt.Sprintf("%s://%s:%d", scheme, ControllerHost(cluster.Name, cluster.Namespace), ControllerPort),
		HTTP: client, Sign: key.Sign,
	})
	c.controllers[cluster] = controllerClient{made, key, client}
	return made, nil
}

// Safekeeper returns the client of a safekeeper.
func (c *Clients) Safekeeper(ctx context.Context, cluster kube.Key, id int64) (*upstream.Safekeeper, error) {
	config, err := c.config(ctx, cluster, SafekeeperHost(cluster.Name, cluster.Namespace, id), SafekeeperHTTPPort)
	if err != nil {
		return nil, err
	}
	return upstream.NewSafekeeper(config), nil
}

// Pageserver returns the client of a pageserver.
func (c *Clients) Pageserver(ctx context.Context, cluster kube.Key, id int64) (*upstream.Pageserver, error) {
	config, err := c.config(ctx, cluster, PageserverHost(cluster.Name, cluster.Namespace, id), PageserverHTTPPort)
	if err != nil {
		return nil, err
	}
	return upstream.NewPageserver(config), nil
}

// memberTimeout ends the requests to safekeepers and pageservers, which answer at once.
const memberTimeout = 5 * time.Second

func (c *Clients) config(ctx context.Context, cluster kube.Key, host string, port int) (upstream.Config, error) {
	key, err := c.Key(ctx, cluster)
	if err != nil {
		return upstream.Config{}, err
	}
	client, scheme, err := c.reach(ctx, cluster)
	return upstream.Config{
		URL: fmt.Sprintf("%s://%s:%d", scheme, host, port), HTTP: client, Sign: key.Sign, Timeout: memberTimeout,
	}, err
}

// Forget drops the client of a cluster that is gone.
func (c *Clients) Forget(cluster kube.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.controllers, cluster)
	delete(c.known, cluster)
	if is, ok := c.secure[cluster]; ok {
		is.CloseIdleConnections()
		delete(c.secure, cluster)
	}
}

// CloseIdle closes the connections with TLS that no request uses.
func (c *Clients) CloseIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, is := range c.secure {
		is.CloseIdleConnections()
	}
}
