package kube

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Config says how to connect. The zero value follows kubectl's rules: the files
// that the environment variable KUBECONFIG names, else ~/.kube/config, else the
// service account of the pod that the program runs in.
type Config struct {
	// Kubeconfig is a file to use instead of what KUBECONFIG names.
	Kubeconfig string
	// Context is a context of the kubeconfig other than its current one.
	Context string
	// Rest is used as it is, and Kubeconfig and Context are not, if it is set.
	Rest *rest.Config
	// Namespace is the one that [Client.Namespace] returns. Default: the namespace of
	// the kubeconfig's context or of the pod, else "default".
	Namespace string
	// FieldManager names the program as the owner of the fields it sets. It
	// must stay the same from release to release. Default: the program's name.
	FieldManager string
	// UserAgent is sent with every request. Default: the program's name.
	UserAgent string
	// Logger gets the server's warnings and the troubles of stores.
	// Default: slog.Default().
	Logger *slog.Logger
	// Observe, if it is set, is called after every request, from the goroutine
	// that made it. It is told of the requests that it makes itself. A panic is
	// logged.
	Observe func(RequestInfo)
	// MaxObjectBytes is how large an object may be that the server answers with,
	// after decompression. A larger one is an error. An answer of several objects,
	// as a page of a list, may be eight times as large; the listings of watches and
	// stores are read object by object and have no other bound.
	// Default: 64 MiB, many times what an API server stores.
	MaxObjectBytes int64
}

// Connect returns a client by the rules of the zero [Config]. It makes no
// request: a server that cannot be reached shows at the first one.
func Connect() (*Client, error) { return Config{}.Connect() }

// Connect returns a client for the configured cluster. It makes no request.
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
	// Missing files are said below, once, in an error that tells what to do.
	rules.WarnIfAllMissing = false
	rules.Warner = func(error) {}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context})
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("load kubeconfig: %w", explainLoad(err, rules))
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("load kubeconfig: %w", err)
	}
	return cfg, namespace, nil
}

// explainLoad says which files were looked at when none held a cluster.
func explainLoad(err error, rules *clientcmd.ClientConfigLoadingRules) error {
	if !clientcmd.IsEmptyConfig(err) && !errors.Is(err, rest.ErrNotInCluster) {
		return err
	}
	files := rules.GetLoadingPrecedence()
	var missing []string
	for _, f := range files {
		if _, serr := os.Stat(f); errors.Is(serr, os.ErrNotExist) {
			missing = append(missing, f)
		}
	}
	looked := strings.Join(files, ", ")
	if len(missing) == len(files) {
		return fmt.Errorf("%s does not exist, and this is not a pod: set KUBECONFIG or start a cluster", looked)
	}
	return fmt.Errorf("%s names no cluster: is current-context set, and is what it names defined?", looked)
}

func programName() string {
	if len(os.Args) == 0 || os.Args[0] == "" {
		return "pintle"
	}
	return filepath.Base(os.Args[0])
}
