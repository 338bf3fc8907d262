package aggregate

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiserverconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
)

// The ConfigMap in which kube-apiserver publishes by which authorities it and its clients
// are known.
const (
	trustNamespace = "kube-system"
	trustName      = "extension-apiserver-authentication"
)

// reviewed is how long the answer to a review of a token or of a right is used again.
const reviewed = 10 * time.Second

// authenticate sets the authentication of requests: kube-apiserver names its users and
// proves itself by a client certificate; direct clients have certificates or tokens. ready
// tells whether the server can recognize kube-apiserver yet.
func authenticate(c *genericapiserver.Config, client kubernetes.Interface) (ready func() error, err error) {
	clients, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", trustNamespace, trustName, "client-ca-file", client)
	if err != nil {
		return nil, fmt.Errorf("read the authority of clients: %w", err)
	}
	proxies, err := dynamiccertificates.NewDynamicCAFromConfigMapController("front-proxy", trustNamespace, trustName, "requestheader-client-ca-file", client)
	if err != nil {
		return nil, fmt.Errorf("read the authority of kube-apiserver: %w", err)
	}
	proxy := &options.DynamicRequestHeaderController{
		ConfigMapCAController: proxies,
		RequestHeaderAuthRequestController: headerrequest.NewRequestHeaderAuthRequestController(trustName, trustNamespace, client,
			"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
			"requestheader-extra-headers-prefix", "requestheader-allowed-names"),
	}
	if err := proxy.RunOnce(context.Background()); err != nil {
		return nil, fmt.Errorf("read how kube-apiserver identifies itself, from ConfigMap %s/%s: %w", trustNamespace, trustName, err)
	}
	c.Authentication.RequestHeaderConfig = &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   proxy,
		UsernameHeaders:     headerrequest.StringSliceProviderFunc(proxy.UsernameHeaders),
		UIDHeaders:          headerrequest.StringSliceProviderFunc(proxy.UIDHeaders),
		GroupHeaders:        headerrequest.StringSliceProviderFunc(proxy.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(proxy.ExtraHeaderPrefixes),
		AllowedClientNames:  headerrequest.StringSliceProviderFunc(proxy.AllowedClientNames),
	}
	// TLS asks for certificates of both authorities, and follows both as they change.
	for _, authority := range []dynamiccertificates.CAContentProvider{clients, proxy} {
		if err := c.Authentication.ApplyClientCert(authority, c.SecureServing); err != nil {
			return nil, fmt.Errorf("ask clients for certificates: %w", err)
		}
	}
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
		return nil, fmt.Errorf("make authenticator: %w", err)
	}
	return func() error {
		if len(proxies.CurrentCABundleContent()) == 0 {
			return errors.New("the authority of kube-apiserver is not known yet")
		}
		return nil
	}, nil
}

// authorize sets the authorization: everybody may probe, and kube-apiserver decides about
// all other requests.
func authorize(c *genericapiserver.Config, client kubernetes.Interface) error {
	probes, err := path.NewAuthorizer([]string{"/healthz", "/livez", "/readyz"})
	if err != nil {
		return fmt.Errorf("make authorizer: %w", err)
	}
	cluster, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             reviewed,
		DenyCacheTTL:              reviewed,
		WebhookRetryBackoff:       options.DefaultAuthWebhookRetryBackoff(),
	}.New()
	if err != nil {
		return fmt.Errorf("make authorizer: %w", err)
	}
	// kube-apiserver itself calls as a member of system:masters, and must not be asked
	// about itself while it starts.
	masters := authorizerfactory.NewPrivilegedGroups("system:masters")
	c.Authorization.Authorizer = union.New(masters, probes, cluster)
	return nil
}

// Audit says which requests are written to a log, as kube-apiserver's flags of the same
// names do.
type Audit struct {
	// File is the log. "-" is standard output. If it is empty, nothing is written.
	File string
	// PolicyFile is a policy of audit.k8s.io/v1. It is required with File.
	PolicyFile string
}

func (a Audit) apply(c *genericapiserver.Config) error {
	if a.File == "" {
		return nil
	}
	o := options.NewAuditOptions()
	o.LogOptions.Path, o.PolicyFile = a.File, a.PolicyFile
	if err := o.ApplyTo(c); err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	return nil
}
