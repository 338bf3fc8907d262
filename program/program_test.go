package program

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// Gadget is the kind of the operator that these tests print and run.
type Gadget struct {
	kube.Object
	Spec struct {
		Note string `json:"note"`
	} `json:"spec"`
}

func (Gadget) GVK() kube.GVK { return kube.GVK{Group: "program.test", Version: "v1", Kind: "Gadget"} }

// call calls a program that is the operator of these tests, as from a command line.
func call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	flags := flag.NewFlagSet("gadgetry", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	copies := flags.String("copies", "one", "a flag of the program's own")
	var out bytes.Buffer
	err := command{flags: flags, args: args, out: &out, config: kube.Config{FieldManager: "gadgetry"}, build: func(client *kube.Client) (Operator, error) {
		if *copies == "none" {
			return Operator{}, errors.New("there must be copies")
		}
		return Operator{
			Name: "gadgetry", Image: "example.com/gadgetry:v1.2.3",
			Definitions: []*crd.Definition{crd.Of[Gadget](crd.Options{})},
			Options:     controller.Options{Lease: lease.Lease{Name: "gadgetry"}},
			Needs:       []manifest.Rules{manifest.Watches(kube.For[Gadget](client))},
			Install:     manifest.Install{Args: []string{"-copies=" + *copies}, Replicas: 2},
		}, nil
	}}.run(t.Context())
	return out.String(), err
}

// A program prints its manifests without a cluster.
func TestProgramPrints(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"as it says": {[]string{"manifests"}, []string{
			"namespace: gadgetry\n", "image: example.com/gadgetry:v1.2.3\n", "replicas: 2\n", "containerPort: 8080\n",
			"containerPort: 8081\n", "port: probes\n",
			"- -install=false\n        - -copies=one\n", "kind: CustomResourceDefinition\n",
		}},
		"with flags": {[]string{"-copies=two", "manifests", "-namespace=other", "-image=local/it:v2", "-replicas=3"}, []string{
			"namespace: other\n", "image: local/it:v2\n", "replicas: 3\n", "- -copies=two\n",
		}},
	} {
		text, err := call(t, test.args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "chart")
	if text, err := call(t, "manifests", "-chart", dir); err != nil || text != "" {
		t.Errorf("a chart: %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "Chart.yaml")); err != nil {
		t.Error(err)
	}
}

// An error of the command line differs from an error of the program.
func TestProgramRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		args  []string
		usage bool
		want  string
	}{
		"no such command":    {[]string{"manifest"}, true, `"manifest" is not a command`},
		"two images":         {[]string{"manifests", "-image=a b"}, false, `image "a b": it must not have spaces`},
		"an image of a line": {[]string{"manifests", "-image=a\n"}, false, `image "a\n"`},
		"no image":           {[]string{"manifests", "-image="}, true, "-image is empty"},
		"no namespace":       {[]string{"manifests", "-namespace="}, true, "-namespace is empty"},
		"no chart":           {[]string{"manifests", "-chart="}, true, "-chart is empty"},
		"no such flag":       {[]string{"-nonsense"}, true, "flag provided but not defined: -nonsense"},
		"none of manifests":  {[]string{"manifests", "-nonsense"}, true, "flag provided but not defined: -nonsense"},
		"an argument":        {[]string{"manifests", "chart"}, true, `manifests takes no argument "chart"`},
		"no replicas":        {[]string{"manifests", "-replicas=0"}, true, "-replicas=0: a Deployment of the operator has 1 replica"},
		"less than none":     {[]string{"manifests", "-replicas=-1"}, true, "-replicas=-1: a Deployment of the operator has 1 replica"},
		"no such level":      {[]string{"-log-level=loud"}, true, `invalid value "loud" for flag -log-level`},
		"a bad name":         {[]string{"manifests", "-namespace=A b"}, false, `namespace "A b"`},
		"no operator":        {[]string{"-copies=none", "manifests"}, false, "there must be copies"},
		"no cluster":         {nil, false, "does not exist, and this is not a pod"},
		"no such kubeconfig": {[]string{"-kubeconfig=/nowhere/config"}, false, "/nowhere/config"},
	} {
		text, err := call(t, test.args...)
		wrong := (*usageError)(nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.As(err, &wrong) != test.usage || text != "" {
			t.Errorf("%s: %v, %q", name, err, text)
		}
	}
	flags := flag.NewFlagSet("taken", flag.ContinueOnError)
	flags.Bool("install", false, "")
	if err := (command{flags: flags}).run(
		t.Context(),
	); err == nil ||
		!strings.Contains(err.Error(), "the program defines the flag -install") {
		t.Errorf("a flag that is taken: %v", err)
	}
}

// A program that would not run prints no manifests, and asks the cluster for nothing.
func TestProgramThatDoesNotRun(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(server.Close)
	for _, args := range [][]string{nil, {"manifests"}} {
		flags := flag.NewFlagSet("gadgetry", flag.ContinueOnError)
		var out bytes.Buffer
		config := kube.Config{FieldManager: "gadgetry", Rest: &rest.Config{Host: server.URL}}
		err := command{flags: flags, args: args, out: &out, config: config, build: func(client *kube.Client) (Operator, error) {
			gadgets := controller.Controller[Gadget]{
				For:       kube.For[Gadget](client),
				Reconcile: func(context.Context, *Gadget) (controller.Action, error) { return controller.Done, nil },
			}
			return Operator{
				Name: "gadgetry", Image: "example.com/gadgetry:v1.2.3",
				Definitions: []*crd.Definition{crd.Of[Gadget](crd.Options{})},
				Controllers: []controller.Any{gadgets, gadgets},
			}, nil
		}}.run(t.Context())
		if err == nil || !strings.Contains(err.Error(), `"gadget": another one has the same name`) || out.Len() > 0 || asked > 0 {
			t.Errorf("%q: %v, with %d requests:\n%s", args, err, asked, &out)
		}
	}
}

// An operator without a lease cannot be taken over, because two processes would act.
func TestDevWithoutLease(t *testing.T) {
	r := running{dev: true}
	if o, err := r.options(Operator{Name: "op"}, false); err == nil || !strings.Contains(err.Error(), "no lease") {
		t.Errorf("%+v, %v", o.Lease, err)
	}
}

// The flags -kubeconfig and -context select the cluster.
func TestProgramConnects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	config := `{"apiVersion":"v1","kind":"Config","current-context":"a","users":[{"name":"u"}],` +
		`"clusters":[{"name":"a","cluster":{"server":"http://a.test"}},{"name":"b","cluster":{"server":"http://b.test"}}],` +
		`"contexts":[{"name":"a","context":{"cluster":"a","user":"u"}},{"name":"b","context":{"cluster":"b","user":"u","namespace":"n"}}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args            []string
		host, namespace string
	}{
		{[]string{"-kubeconfig=" + file}, "http://a.test", "default"},
		{[]string{"-kubeconfig=" + file, "-context=b"}, "http://b.test", "n"},
	} {
		flags := flag.NewFlagSet("connects", flag.ContinueOnError)
		seen := errors.New("seen")
		err := command{flags: flags, args: test.args, build: func(client *kube.Client) (Operator, error) {
			if host := client.Config().Rest.Host; host != test.host || client.Namespace() != test.namespace {
				t.Errorf("%q: %s, %s", test.args, host, client.Namespace())
			}
			return Operator{}, seen
		}}.run(t.Context())
		if !errors.Is(err, seen) {
			t.Errorf("%q: %v", test.args, err)
		}
	}
}

// A program may have settings of its own for the client. The flags have precedence, and
// the manifests are printed without the server.
func TestProgramConfig(t *testing.T) {
	var log bytes.Buffer
	config := kube.Config{
		Rest: &rest.Config{Host: "http://own.test"}, FieldManager: "earlier-name",
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	for _, test := range []struct {
		args  []string
		host  string
		debug bool
	}{
		{nil, "http://own.test", false},
		{[]string{"-log-level=debug"}, "http://own.test", true},
		{[]string{"manifests"}, "https://kubernetes.default.svc", false},
	} {
		seen := errors.New("seen")
		flags := flag.NewFlagSet("configured", flag.ContinueOnError)
		err := command{flags: flags, args: test.args, config: config, build: func(client *kube.Client) (Operator, error) {
			c := client.Config()
			if c.Rest.Host != test.host || c.FieldManager != cmp.Or(config.FieldManager, "program") ||
				c.Logger.Enabled(t.Context(), slog.LevelDebug) != test.debug {
				t.Errorf("%q: %+v", test.args, c)
			}
			return Operator{}, seen
		}}.run(t.Context())
		if !errors.Is(err, seen) {
			t.Errorf("%q: %v", test.args, err)
		}
	}
	if config.Rest.Host != "http://own.test" {
		t.Errorf("the program's settings were changed: %s", config.Rest.Host)
	}
}

// An error that a flag can mend names the flag.
func TestErrorNamesTheFlag(t *testing.T) {
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	run := command{
		flags:  flag.NewFlagSet("taken", flag.ContinueOnError),
		config: kube.Config{Rest: &rest.Config{Host: "http://own.test"}},
		build: func(*kube.Client) (Operator, error) {
			return Operator{Name: "program", Options: controller.Options{Address: other.Addr().String()}}, nil
		},
	}
	for flag, err := range map[string]error{
		"-addr":                    run.run(t.Context()),
		"-force-definitions":       explain(fmt.Errorf("install: %w", &crd.IncompatibleError{})),
		"with -install=false once": explain(apierrors.NewForbidden(schema.GroupResource{}, "x", nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v does not name %s", err, flag)
		}
	}
}

// The operator's name agrees with the field manager, unless the program has set another one.
func TestFieldManager(t *testing.T) {
	for _, c := range []struct {
		name, manager string
		want          string // "" if they agree
	}{
		{"program", "", ""}, // the main package of this test
		{"program-operator", "", ""},
		{"web-operator", "", "called web-operator"},
		{"web-operator", "earlier-name", ""},
	} {
		for _, args := range [][]string{{"-dev"}, {"manifests"}} {
			run := command{
				flags: flag.NewFlagSet("managed", flag.ContinueOnError), args: args, out: io.Discard,
				config: kube.Config{Rest: &rest.Config{Host: "http://own.test"}, FieldManager: c.manager},
				build: func(*kube.Client) (Operator, error) {
					return Operator{Name: c.name, Image: "web"}, nil
				},
			}
			err := run.run(t.Context())
			refused := err != nil && strings.Contains(err.Error(), "field manager")
			if refused != (c.want != "") || refused && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v of %s: %v", args, c.name, err)
			}
		}
	}
}

// An operator has a name also if it is only run.
func TestNameless(t *testing.T) {
	c := command{
		flags:  flag.NewFlagSet("nameless", flag.ContinueOnError),
		config: kube.Config{Rest: &rest.Config{Host: "http://own.test"}},
		build:  func(*kube.Client) (Operator, error) { return Operator{}, nil },
	}
	if err := c.run(t.Context()); err == nil || !strings.Contains(err.Error(), "no Name") {
		t.Error(err)
	}
}

// The flag -log-level sets the level of the default logger and of the operator's own.
func TestLogLevel(t *testing.T) {
	before := slog.SetLogLoggerLevel(slog.LevelInfo)
	t.Cleanup(func() { slog.SetLogLoggerLevel(before) })
	var own bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&own, nil))
	for _, test := range []struct {
		args  []string
		least slog.Level
	}{
		{nil, slog.LevelInfo},
		{[]string{"-log-level=debug"}, slog.LevelDebug},
		{[]string{"-log-level=WARN"}, slog.LevelWarn},
	} {
		var r running
		flags := flag.NewFlagSet("leveled", flag.ContinueOnError)
		if err := errors.Join(r.define(flags, true), flags.Parse(test.args)); err != nil {
			t.Fatal(err)
		}
		for name, of := range map[string]*slog.Logger{"own": logger, "default": nil} {
			o, err := r.options(Operator{Options: controller.Options{Logger: of}}, true)
			if err != nil {
				t.Fatal(err)
			}
			got := cmp.Or(o.Logger, slog.Default()).With("a", 1).WithGroup("g")
			if !got.Enabled(t.Context(), test.least) || got.Enabled(t.Context(), test.least-1) {
				t.Errorf("%q: the level of the %s logger is not %v", test.args, name, test.least)
			}
		}
	}
	o, err := (&running{level: new(slog.Level)}).options(Operator{Options: controller.Options{Logger: logger}}, true)
	if err != nil {
		t.Fatal(err)
	}
	o.Logger.With("a", 1).Info("a line")
	if !strings.Contains(own.String(), `msg="a line" a=1`) {
		t.Errorf("the log is %q", &own)
	}
}

// In a pod a program runs as its manifest says. Elsewhere it takes no lease and logs
// that, and it listens on loopback.
func TestOptions(t *testing.T) {
	whole := Operator{
		Options: controller.Options{Address: ":9090", Lease: lease.Lease{Name: "l"}},
		Install: manifest.Install{TLSSecret: "cert"},
	}
	for name, test := range map[string]struct {
		o                                  Operator
		args                               []string
		inPod                              bool
		address, certDir, lease, namespace string
	}{
		"nothing, in a pod":     {o: Operator{}, inPod: true, address: ":8080"},
		"nothing, elsewhere":    {o: Operator{}, address: "127.0.0.1:8080"},
		"in a pod":              {o: whole, inPod: true, address: ":9090", certDir: "/etc/tls", lease: "l"},
		"elsewhere":             {o: whole, address: "127.0.0.1:9090"},
		"in a pod, with flags":  {o: whole, args: []string{"-addr=:1", "-lease=false"}, inPod: true, address: ":1", certDir: "/etc/tls"},
		"elsewhere, with flags": {o: whole, args: []string{"-addr=:0", "-lease"}, address: ":0", lease: "l"},
		"for a developer":       {o: whole, args: []string{"-dev"}, address: "127.0.0.1:9090", lease: "l"},
		"of another namespace":  {o: whole, args: []string{"-dev", "-lease-namespace=n"}, address: "127.0.0.1:9090", lease: "l", namespace: "n"},
		"own files, in a pod":   {o: Operator{Options: controller.Options{CertDir: "/c"}}, inPod: true, address: ":8080", certDir: "/c"},
		"own files, elsewhere":  {o: Operator{Options: controller.Options{CertDir: "/c"}}, address: "127.0.0.1:8080", certDir: "/c"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			test.o.Options.Logger = slog.New(slog.NewTextHandler(&log, nil))
			flags := flag.NewFlagSet("options", flag.ContinueOnError)
			var r running
			if err := errors.Join(r.define(flags, test.inPod), flags.Parse(test.args)); err != nil {
				t.Fatal(err)
			}
			o, err := r.options(test.o, test.inPod)
			if err != nil || o.Address != test.address || o.CertDir != test.certDir || o.Lease.Name != test.lease ||
				o.Lease.Namespace != test.namespace {
				t.Errorf(
					"address %q, certificate %q, lease %q in %q, %v", o.Address, o.CertDir, o.Lease.Name, o.Lease.Namespace, err,
				)
			}
			said := strings.Count(log.String(), "takes no lease")
			if dropped := test.o.Options.Lease.Name != o.Lease.Name; (said == 1) != dropped {
				t.Errorf("it says %q", &log)
			}
		})
	}
}

// The error of a program that may not install its definitions names the flag that leaves
// the installation out.
func TestForbiddenInstallation(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],
		"clusters":[{"name":"c","cluster":{"server":"` + server.URL + `"}}]}`
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := call(t, "-kubeconfig="+path)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "-install=false") {
		t.Errorf("the error of a forbidden installation: %v", err)
	}
}
