package kube

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Config says how to connect. The zero value follows kubectl's rules. It uses the files
// that the environment variable KUBECONFIG names, else ~/.kube/config, else the service
// account of the pod that the program runs in. Its counterparts are kube-rs's Config and
// client-go's rest.Config.
type Config struct {
	// Kubeconfig is a file to use instead of the files that KUBECONFIG names.
	Kubeconfig string
	// Context is a context of the kubeconfig other than its current one.
	Context string
	// Rest, if it is set, is used as it is. Then Kubeconfig and Context are not used. If it
	// has no UserAgent, requests get the name of the program by its main package, as for
	// FieldManager, else the name of its file.
	Rest *rest.Config
	// Namespace is the result of [Client.Namespace]. Default: the namespace of the
	// kubeconfig's context or of the pod, else "default".
	Namespace string
	// FieldManager names the program as the owner of the fields that it sets. It must
	// stay the same from release to release, and differ from the name of each other
	// program that writes the same objects. Default: the last element of the path of the
	// main package that names the program. These elements do not: app, bin, cmd,
	// controller, main, manager, operator, a major version, and the host at the beginning.
	// So the default of example.com/web-operator/cmd is web-operator. If no element is
	// left, or with go run main.go, there is no default, and a create, update, patch or
	// apply is an error. program.Main checks that it agrees with the operator's name. Its
	// counterpart is controller-runtime's client.FieldOwner.
	FieldManager string
	// Logger receives the server's warnings and the troubles of stores.
	// Default: slog.Default().
	Logger *slog.Logger
	// Observe, if it is set, is called after every request. The goroutine that made the
	// request calls it. Observe is also told of the requests that it makes itself. A
	// panic of Observe is logged.
	Observe func(RequestInfo)
	// MaxObjectBytes is the greatest size, after decompression, of an object in the
	// server's answers. A larger object is an error. An answer that holds several
	// objects may be eight times as large: List asks for smaller pages if one is larger,
	// at last for one object. Watches and stores
	// read their listings object by object, and these listings have no other bound.
	// Default: 64 MiB, many times the size of the objects that an API server stores.
	MaxObjectBytes int64
}

// Connect returns a client by the rules of the zero [Config]. It makes no request: if the
// server cannot be reached, the first request fails. Its counterpart is kube-rs's
// Client::try_default.
func Connect() (*Client, error) { return Config{}.Connect() }

// Connect returns a client for the configured cluster. It makes no request. Its
// counterpart is kube-rs's Client::try_from.
func (c Config) Connect() (*Client, error) {
	cfg, namespace := c.Rest, ""
	if cfg == nil {
		var err error
		if cfg, namespace, err = c.load(); err != nil {
			return nil, err
		}
	}
	namespace = cmp.Or(c.Namespace, namespace, "default")
	return newClient(c, cfg, namespace)
}

func (c Config) load() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	// The error of explainLoad names missing files once and tells how to mend that.
	rules.WarnIfAllMissing = false
	rules.Warner = func(error) {}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.Context})
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("load kubeconfig: %w", c.explainLoad(err, loader, rules))
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("load kubeconfig: %w", err)
	}
	return cfg, namespace, nil
}

// explainLoad names the files that were looked at if none of them holds the context, or a cluster.
func (c Config) explainLoad(err error, loader clientcmd.ClientConfig, rules *clientcmd.ClientConfigLoadingRules) error {
	files := rules.GetLoadingPrecedence()
	looked := strings.Join(files, ", ")
	raw, rerr := loader.RawConfig()
	unknown := rerr == nil && c.Context != "" && raw.Contexts[c.Context] == nil
	if !unknown && !clientcmd.IsEmptyConfig(err) && !errors.Is(err, rest.ErrNotInCluster) {
		return err
	}
	for _, f := range files {
		switch _, serr := os.Stat(f); {
		case errors.Is(serr, os.ErrNotExist):
		case unknown:
			return fmt.Errorf("%s has no context %q: kubectl config get-contexts lists the others", looked, c.Context)
		default:
			return fmt.Errorf("%s has no current cluster: is current-context set, and is that context defined?", looked)
		}
	}
	return fmt.Errorf("%s does not exist, and this is not a pod: set KUBECONFIG or start a cluster", looked)
}
