package aggregate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	apiserverconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
)

// The ConfigMap in which kube-apiserver publishes by which authorities it and its clients
// are known.
const (
	trustNamespace, trustName = metav1.NamespaceSystem, "extension-apiserver-authentication"
	// clientsKey is the key of the authority of direct clients. A cluster whose users have no certificates
	// lacks it.
	clientsKey = "client-ca-file"
)

// reviewed is how long the answer to a review of a token or of a right is used again.
const reviewed = 10 * time.Second

// authenticate sets the authentication of requests: kube-apiserver names its users and
// proves itself by a client certificate; direct clients have certificates or tokens. The server is
// not ready before it knows the authorities of both.
func authenticate(c *genericapiserver.Config, client kubernetes.Interface) error {
	authority := dynamiccertificates.NewDynamicCAFromConfigMapController
	clients, err := authority("client-ca", trustNamespace, trustName, clientsKey, client)
	proxies, proxyErr := authority("front-proxy", trustNamespace, trustName, "requestheader-client-ca-file", client)
	if err := cmp.Or(err, proxyErr); err != nil {
		return fmt.Errorf("read the authorities of clients: %w", err)
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(trustName, trustNamespace, client,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")
	proxy := &options.DynamicRequestHeaderController{
		ConfigMapCAController: proxies, RequestHeaderAuthRequestController: headers,
	}
	if err := proxy.RunOnce(context.Background()); err != nil {
		return fmt.Errorf("read the headers of kube-apiserver, from ConfigMap %s/%s: %w", trustNamespace, trustName, err)
	}
	published, err := client.CoreV1().ConfigMaps(trustNamespace).Get(context.Background(), trustName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the authorities of clients, from ConfigMap %s/%s: %w", trustNamespace, trustName, err)
	}
	isKnown := func() error {
		switch {
		case len(proxies.CurrentCABundleContent()) == 0:
			return errors.New("the authority of kube-apiserver is not known yet")
		case published.Data[clientsKey] != "" && len(clients.CurrentCABundleContent()) == 0:
			return errors.New("the authority of clients is not known yet")
		}
		return nil
	}
	c.AddReadyzChecks(healthz.NamedCheck("authorities", func(*http.Request) error { return isKnown() }))
	c.Authentication.RequestHeaderConfig = &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   proxy,
		UsernameHeaders:     headerrequest.StringSliceProviderFunc(proxy.UsernameHeaders),
		UIDHeaders:          headerrequest.StringSliceProviderFunc(proxy.UIDHeaders),
		GroupHeaders:        headerrequest.StringSliceProviderFunc(proxy.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(proxy.ExtraHeaderPrefixes),
		AllowedClientNames:  headerrequest.StringSliceProviderFunc(proxy.AllowedClientNames),
	}
	// TLS asks for certificates of both authorities, and follows both as they change.
	c.SecureServing.ClientCA = primed{dynamiccertificates.NewUnionCAContentProvider(clients, proxy), isKnown}
	c.Authentication.Authenticator, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{
		// Probes of the kubelet have no credentials.
		Anonymous: &apiserverconfig.AnonymousAuthConfig{Enabled: true, Conditions: []apiserverconfig.AnonymousAuthCondition{
			{Path: "/healthz"}, {Path: "/livez"}, {Path: "/readyz"},
		}},
		TokenAccessReviewClient:            client.AuthenticationV1(),
		TokenAccessReviewTimeout:           reviewed,
		WebhookRetryBackoff:                options.DefaultAuthWebhookRetryBackoff(),
		CacheTTL:                           reviewed,
		ClientCertificateCAContentProvider: clients,
		RequestHeaderConfig:                c.Authentication.RequestHeaderConfig,
	}.New()
	if err != nil {
		return fmt.Errorf("make authenticator: %w", err)
	}
	return nil
}

// primed are authorities that are known before the server accepts connections. Otherwise a client whose
// certificate is good would be refused until a watch has shown its authority.
type primed struct {
	dynamiccertificates.CAContentProvider

	isKnown func() error
}

// primeLimit is how long the server waits for the authorities. After it, /readyz tells what is missing.
const primeLimit = 10 * time.Second

// RunOnce implements [dynamiccertificates.ControllerRunner]. The server calls it with a context that ends
// when the server does, after it has asked to be told of changes, and before it accepts connections.
func (p primed) RunOnce(ctx context.Context) error {
	go p.CAContentProvider.(dynamiccertificates.ControllerRunner).Run(ctx, 1)
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, primeLimit, true, func(context.Context) (bool, error) {
		return p.isKnown() == nil, nil
	})
}

// Run implements [dynamiccertificates.ControllerRunner]. RunOnce has done it.
func (p primed) Run(context.Context, int) {}

// authorize sets the authorization: everybody may probe, and kube-apiserver decides about
// all other requests.
func authorize(c *genericapiserver.Config, client kubernetes.Interface) error {
	probes, err := path.NewAuthorizer([]string{"/healthz", "/livez", "/readyz"})
	cluster, clusterErr := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             reviewed,
		DenyCacheTTL:              reviewed,
		WebhookRetryBackoff:       options.DefaultAuthWebhookRetryBackoff(),
	}.New()
	if err := cmp.Or(err, clusterErr); err != nil {
		return fmt.Errorf("make authorizer: %w", err)
	}
	// kube-apiserver itself calls as a member of system:masters, and must not be asked
	// about itself while it starts.
	masters := authorizerfactory.NewPrivilegedGroups("system:masters")
	c.Authorization.Authorizer = union.New(masters, probes, cluster)
	return nil
}
