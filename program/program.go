// Package program is the main function of an operator.
//
//	func main() { program.Main(describe) }
//
// where describe returns an [Operator]: its name, its controllers and their rights. The
// program runs the controllers, or prints the objects that a cluster needs to run it:
//
//	go run ./operators/echo manifests | kubectl apply --server-side -f -
package program

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/internal/fieldmanager"
	"github.com/pintle-go/pintle/internal/hooks"
	"github.com/pintle-go/pintle/internal/pod"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/webhook"
)

// Operator is a program that [Main] runs. Main uses its Controllers, Definitions and
// Options, and prints manifests of the whole.
type Operator = manifest.Operator

// Main is the main function of a program that is an operator. It calls build,
// which returns the operator, and then runs the command of the command line:
//
//	echo                        install the definitions and run the controllers
//	echo manifests              print the objects that a cluster needs to run the operator
//	echo manifests -chart DIR   write the same as a Helm chart
//
// Printing needs no cluster and no kubeconfig: build then gets a client that reaches no
// server. The command manifests takes the flags -image, -namespace and
// -replicas, which replace the program's own values.
//
// # Running
//
// The program connects by the rules of [kube.Config], as kubectl does. It takes
// these flags besides those that the program has defined in package flag, which are
// parsed when build is called:
//
//	-kubeconfig         file to use instead of the one in KUBECONFIG
//	-context            context of the kubeconfig
//	-log-level          least level of the lines that are logged: debug, info, warn or
//	                    error; default: that of the loggers, which is info
//	-addr               address of health, readiness, metrics, hooks and routes
//	-lease              whether it takes the operator's lease
//	-lease-namespace    namespace of the Lease
//	-dev                take the lease over from the operator in the cluster, which
//	                    goes on when this process ends
//	-install            whether it installs the definitions first, as [crd.Install] does;
//	                    while one of them is being deleted, the controllers run, for
//	                    the deletion may wait for their finalizers
//	-webhooks           how the API server calls the webhooks: service, url or off
//	-force-definitions  install them also over definitions that [crd.Install] refuses
//	                    to replace, such as those of an earlier operator: stored
//	                    objects may not fit the replacement
//
// In a pod, which has the files of a service account, the program listens on the
// Address of its Options, by default ":8080", serves the certificate of the
// manifest's TLSSecret, answers the kubelet's probes at ProbeAddress, by default ":8081",
// and takes the lease. With the flags of the printed Deployment
// it installs nothing: the definitions come with the manifests, so the program needs no
// right to change any. kubectl apply reports a conflict about a definition that the
// program has installed itself before: --force-conflicts takes it over. kubectl does not
// check whether stored objects fit the definition, as [crd.Install] does.
//
// Elsewhere, as on a developer's machine, it listens on loopback at the same port,
// without the TLSSecret, which only the pod has, and has no port for probes. It takes no lease, so that a restart
// need not wait for the lease of a process that was killed. Then another process may act
// at the same time, and the program logs that. With -lease it takes the Lease in the namespace
// that the Options name, or else the kubeconfig's context. With -dev it looks in all
// namespaces for the Lease of the operator in the cluster, and takes that.
//
// On SIGINT and SIGTERM the program stops as [controller.Run] says, and ends with
// status 0, also when that is before the definitions are installed; a second signal
// ends it at once. It ends with status 1 and the reason in the log if it cannot go
// on, and with status 2 if the command line is wrong. The counterpart of Main is the
// main.go of a kubebuilder project.
//
// # Memory
//
// If neither GOGC nor GOMEMLIMIT is set, and the program has not called SetGCPercent or
// SetMemoryLimit of package runtime/debug before Main, the program collects garbage as
// with GOGC=50. A large store then takes a fifth less memory, and a change in it a tenth
// more CPU time. The printed Deployment has a GOMEMLIMIT below its memory limit, and Go's
// own GOGC.
//
// # Field manager
//
// The client's field manager is named after the main package, as [kube.Config] says. The
// operator's Name must be the same name, or that name with -operator, -controller or
// -manager: Main ends with an error if the two do not agree, so that no operator takes
// another one for itself. Both must stay the same from release to release.
//
// A program whose field manager differs from its name, because it continues the work of an
// earlier program, sets FieldManager and calls [Program.Main]. So does a program that needs
// other settings of its client.
func Main(build func(*kube.Client) (Operator, error)) { Program{}.Main(build) }

// Program has the settings of a program besides those of its [Operator]. Most programs
// need none and call [Main].
type Program struct {
	// Config has the settings of the client, such as FieldManager or Observe. The flags
	// -kubeconfig and -context replace its Kubeconfig and Context. With Rest neither is
	// used, except that the command manifests needs no server and replaces Rest.
	Config kube.Config
}

// Main does the same as the function [Main], with the settings of p.
func (p Program) Main(build func(*kube.Client) (Operator, error)) {
	ctx, stop := controller.Signals()
	c := command{
		flags: flag.CommandLine, args: os.Args[1:], out: os.Stdout, inPod: pod.Inside(), config: p.Config, build: build,
	}
	err := c.run(ctx)
	stop()
	switch wrong := (*usageError)(nil); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, &wrong):
		fmt.Fprintln(flag.CommandLine.Output(), err)
		os.Exit(2)
	default:
		slog.Error("the operator failed", "error", err)
		os.Exit(1)
	}
}

// usageError is an error of the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// command is one call of a program.
type command struct {
	flags *flag.FlagSet
	args  []string
	out   io.Writer
	inPod bool
	// config has the settings of the client, except those of the flags.
	config kube.Config
	build  func(*kube.Client) (Operator, error)

	running
}

func (c command) run(ctx context.Context) error {
	if err := c.define(c.flags, c.inPod); err != nil {
		return &usageError{err}
	}
	c.flags.Usage = func() {
		fmt.Fprintf(c.flags.Output(), "%[1]s [flags]            runs the operator\n"+
			"%[1]s manifests [flags]  prints the manifests to run it in a cluster (-h lists flags)\n", c.flags.Name())
		c.flags.PrintDefaults()
	}
	if err := c.flags.Parse(c.args); err != nil {
		return &usageError{err}
	}
	switch {
	case c.flags.NArg() == 0:
		return c.operate(ctx)
	case c.flags.Arg(0) == "manifests":
		return c.print(c.flags.Args()[1:])
	}
	return &usageError{fmt.Errorf("%q is not a command: run without a command to start the operator, "+
		"or with the command manifests to print its manifests", c.flags.Arg(0))}
}

// operate runs the operator until ctx ends.
func (c command) operate(ctx context.Context) error {
	limitMemory()
	if c.level != nil {
		slog.SetLogLoggerLevel(*c.level)
	}
	config := c.config
	config.Logger = c.logger(config.Logger)
	config.Kubeconfig = cmp.Or(c.kubeconfig, config.Kubeconfig)
	config.Context = cmp.Or(c.context, config.Context)
	client, err := config.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	o, err := c.describe(client)
	if err != nil {
		return err
	}
	options, err := c.options(o, c.inPod)
	if err != nil {
		return err
	}
	if c.dev {
		if err := takeOver(ctx, client, &options, o); err != nil && ctx.Err() == nil {
			return err
		}
	}
	serving, err := webhook.Serving(o.Webhooks...)
	if err != nil {
		return err
	}
	called, err := serving.Start(hooks.Program{
		Way: hooks.Way(c.webhooks), InPod: c.inPod, Client: client, Options: &options,
		At: hooks.PlaceOf(o.Name, o.Install.Namespace, o.Definitions), Definitions: o.Definitions,
	})
	if err != nil {
		return err
	}
	defer called.Stop(ctx)
	if definitions := called.Definitions; c.install && len(definitions) > 0 {
		if err := install(ctx, client, c.force, &options, definitions); err != nil || ctx.Err() != nil {
			return err
		}
	}
	err = controller.Run(ctx, options, o.Controllers...)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w (-addr chooses another one)", err)
	}
	return err
}

// describe returns the operator, which is one that can run. Its name and field manager agree
// unless the program has set the field manager.
func (c command) describe(client *kube.Client) (Operator, error) {
	o, err := c.build(client)
	if err != nil {
		return o, err
	}
	if o.Name == "" {
		return o, errors.New("the operator has no Name")
	}
	manager, err := client.FieldManager()
	if err != nil {
		return o, fmt.Errorf("run operator %s: %w", o.Name, err)
	}
	if c.config.FieldManager == "" && !fieldmanager.Agree(o.Name, manager) {
		return o, fmt.Errorf("the operator is called %s, and its field manager, after the main package, %s: "+
			"set FieldManager in the Config of program.Program, or change the Name", o.Name, manager)
	}
	if err := controller.Validate(o.Options, o.Controllers...); err != nil {
		return o, fmt.Errorf("run operator %s: %w", o.Name, err)
	}
	return o, nil
}

// print prints the manifests of the operator, or writes its chart.
func (c command) print(args []string) error {
	flags := flag.NewFlagSet("manifests", c.flags.ErrorHandling())
	flags.SetOutput(c.flags.Output())
	chart := flags.String("chart", "", "`directory` to write a Helm chart to, instead of printing YAML")
	image := flags.String("image", "", "`name` of the image to run, instead of the default image")
	namespace := flags.String("namespace", "", "`namespace` to run in, instead of the default namespace")
	replicas := flags.Int("replicas", 0, "`number` of replicas, instead of the default number; one of them holds the lease "+
		"and reconciles")
	if err := flags.Parse(args); err != nil {
		return &usageError{err}
	}
	if flags.NArg() > 0 {
		return &usageError{fmt.Errorf("manifests takes no argument %q", flags.Arg(0))}
	}
	var wrong error
	flags.Visit(func(f *flag.Flag) {
		switch {
		case f.Value.String() == "":
			wrong = fmt.Errorf("manifests: -%s is empty", f.Name)
		case f.Name == "replicas" && (*replicas < 1 || *replicas > math.MaxInt32):
			wrong = fmt.Errorf("manifests -replicas=%d: a Deployment of the operator has 1 replica or more: "+
				"to stop the operator, apply the manifests and scale the Deployment to 0", *replicas)
		}
	})
	if wrong != nil {
		return &usageError{wrong}
	}
	// Handles ask this server for nothing until they are used.
	config := c.config
	config.Rest = &rest.Config{Host: "https://kubernetes.default.svc"}
	nowhere, err := config.Connect()
	if err != nil {
		return err
	}
	defer nowhere.Close()
	o, err := c.describe(nowhere)
	if err != nil {
		return err
	}
	o = deployed(o)
	o.Image = cmp.Or(*image, o.Image)
	o.Install.Namespace = cmp.Or(*namespace, o.Install.Namespace)
	o.Install.Replicas = cmp.Or(int32(*replicas), o.Install.Replicas)
	if *chart != "" {
		return o.WriteChart(*chart)
	}
	text, err := o.YAML()
	if err != nil {
		return err
	}
	if _, err := c.out.Write(text); err != nil {
		return fmt.Errorf("print manifests: %w", err)
	}
	return nil
}
