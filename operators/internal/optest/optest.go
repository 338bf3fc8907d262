// Package optest runs the operators in tests, as processes, as in a cluster.
package optest

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/program"
)

// expectTime is the longest time that a step may take on a busy machine.
const expectTime = time.Minute

// Binary is an operator's program. It is built at its first use.
type Binary struct {
	// Package is the import path of the main package.
	Package string
	// Shipped builds the program without the race detector, as it is shipped: for tests
	// that measure it.
	Shipped bool

	once sync.Once
	dir  string
	path string
	err  error
}

// Path returns the path of the program. It is built with the race detector if the test
// is and Shipped is not set.
func (b *Binary) Path(t testing.TB) string {
	t.Helper()
	b.once.Do(func() {
		//nolint:usetesting // the program outlives the first test that needs it
		if b.dir, b.err = os.MkdirTemp("", "pintle-operator-"); b.err != nil {
			return
		}
		var paths []string
		if paths, b.err = program.Build(context.Background(), b.dir, raceEnabled && !b.Shipped, b.Package); b.err == nil {
			b.path = paths[0]
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

// Main is the TestMain of a package with built programs, which it removes at the end.
func Main(m *testing.M, all ...*Binary) {
	code := leak.Run(m)
	for _, b := range all {
		if b.dir != "" {
			_ = os.RemoveAll(b.dir) // a directory left in /tmp fails no test
		}
	}
	os.Exit(code)
}

// Run starts the program with a kubeconfig, and ends it when the test ends.
func (b *Binary) Run(t testing.TB, kubeconfig string, args ...string) *program.Program {
	t.Helper()
	p, err := program.Start(program.Spec{
		Path: b.Path(t),
		Args: args,
		Env:  []string{"KUBECONFIG=" + kubeconfig, "NAMESPACE=", "GORACE=halt_on_error=1 exitcode=66"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// t.Context() has ended by now.
		if err := p.Stop(context.Background(), time.Minute); err != nil {
			t.Error(err)
		}
		if lines, _ := p.Lines(); t.Failed() {
			for _, line := range lines {
				t.Logf("%s: %s", filepath.Base(b.Package), line)
			}
		}
		if code, err := p.Wait(context.Background()); err != nil || code == 66 {
			t.Errorf("the program ended with status %d: %v", code, err)
		}
	})
	return p
}

// Expect waits until a program has written a line that contains all texts.
func Expect(t testing.TB, p *program.Program, texts ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), expectTime)
	defer cancel()
	line, err := p.Await(ctx, texts...)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// NotServedYet matches the errors that a request for a kind can get just before its
// definition is served.
var NotServedYet = regexp.MustCompile(
	`the server has no \w+ in|storage is \(re\)initializing|before all known HTTP paths have been installed`)

// ExpectRecovery waits until a program has logged that a store has recovered, in a line
// that contains all texts. The last cause in that line must match a pattern; several
// causes are possible, by chance.
func ExpectRecovery(t testing.TB, p *program.Program, cause *regexp.Regexp, texts ...string) {
	t.Helper()
	_, last, found := strings.Cut(Expect(t, p, append(texts, "store recovered")...), " from=")
	if !found || !cause.MatchString(last) {
		t.Errorf("recovered from %q, want %s", last, cause)
	}
}

// ExpectEnd waits until a program has ended and returns its status.
func ExpectEnd(t testing.TB, p *program.Program) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), expectTime)
	defer cancel()
	code, err := p.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// Kubeconfig writes a kubeconfig for a cluster, with a namespace in its context. If token
// is set, it replaces the credentials of the configuration.
func Kubeconfig(t testing.TB, c *rest.Config, namespace, token string) string {
	t.Helper()
	user := &api.AuthInfo{
		Token:                 c.BearerToken,
		ClientCertificate:     c.CertFile,
		ClientCertificateData: c.CertData,
		ClientKey:             c.KeyFile,
		ClientKeyData:         c.KeyData,
	}
	if token != "" {
		user = &api.AuthInfo{Token: token}
	}
	config := api.Config{
		CurrentContext: "test",
		Contexts:       map[string]*api.Context{"test": {Cluster: "test", AuthInfo: "test", Namespace: namespace}},
		AuthInfos:      map[string]*api.AuthInfo{"test": user},
		Clusters: map[string]*api.Cluster{"test": {
			Server:                   c.Host,
			InsecureSkipTLSVerify:    c.Insecure,
			CertificateAuthority:     c.CAFile,
			CertificateAuthorityData: c.CAData,
		}},
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatalf("write kubeconfig: %v", err)
	}
	return path
}

// Client returns a client that leaves nothing running after the test.
func Client(t testing.TB, c *rest.Config) *kube.Client {
	t.Helper()
	client, err := kube.Config{Rest: c, FieldManager: "optest"}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Read reads shipped manifests.
func Read(t testing.TB, names ...string) []install.Manifest {
	t.Helper()
	list, err := install.Read(operators.Files, names...)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Apply applies manifests.
func Apply(t testing.TB, client *kube.Client, namespace string, list ...install.Manifest) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), expectTime)
	defer cancel()
	if err := install.Apply(ctx, client, namespace, list...); err != nil {
		t.Fatal(err)
	}
}
