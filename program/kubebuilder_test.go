package program

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/kube"
)

// predecessor has the flags of a program that kubebuilder has made, with those of its logger.
// Programs of older releases have the last two.
var predecessor = []string{
	"--leader-elect", "--metrics-bind-address=:8443", "--metrics-secure=false", "--health-probe-bind-address=:8081",
	"--enable-http2", "--webhook-cert-path=/certs", "--webhook-cert-name=tls.crt", "--webhook-cert-key=tls.key",
	"--metrics-cert-path=/certs", "--metrics-cert-name=tls.crt", "--metrics-cert-key=tls.key", "--zap-devel",
	"--zap-encoder=json", "--zap-log-level=debug", "--zap-stacktrace-level=error", "--zap-time-encoding=rfc3339",
	"--enable-leader-election", "--metrics-addr=:8080",
}

// A program does not know the flags of its predecessor but -kubeconfig, and ends with the
// status of a wrong command line. With two dashes its own flags are the same.
func TestFlagsOfKubebuilder(t *testing.T) {
	for _, given := range predecessor {
		name, _, _ := strings.Cut(strings.TrimPrefix(given, "--"), "=")
		_, err := call(t, given, "manifests")
		wrong := (*usageError)(nil)
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "flag provided but not defined: -"+name) {
			t.Errorf("%s: %v", given, err)
		}
	}
	if _, err := call(t, "--kubeconfig=/nowhere/config", "--log-level=debug", "--lease", "manifests"); err != nil {
		t.Error(err)
	}
}

// A program that defines the flags of its predecessor accepts and ignores them.
func TestFlagsThatAreIgnored(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	flags := flag.NewFlagSet("gadgetry", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Bool("leader-elect", true, "has no effect: see -lease")
	flags.String("metrics-bind-address", "", "has no effect: see -addr")
	var out bytes.Buffer
	err := command{
		flags: flags, args: []string{"--leader-elect", "--metrics-bind-address=:8443", "manifests"}, out: &out,
		config: kube.Config{FieldManager: "gadgetry"},
		build: func(*kube.Client) (Operator, error) {
			return Operator{Name: "gadgetry", Image: "example.com/gadgetry:v1.2.3"}, nil
		},
	}.run(t.Context())
	if err != nil || out.Len() == 0 {
		t.Errorf("got %v", err)
	}
}
