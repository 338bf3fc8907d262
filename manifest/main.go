package manifest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

const (
	defaultPort    = 8080
	defaultAddress = "127.0.0.1:8080"
)

// Main is the main function of a program that is an operator. It calls build,
// which says what the operator is, and does what the command line asks for:
//
//	echo                        install the definitions and run the controllers
//	echo manifests              print what a cluster needs to run the operator
//	echo manifests -chart DIR   write the same as a Helm chart
//
// so that
//
//	go run ./operators/echo manifests | kubectl apply -f -
//
// puts the operator into a cluster. To print, it needs no cluster and no
// kubeconfig: build gets a client then that reaches no server. manifests takes
// the flags -image, -namespace and -replicas, for what is to be other than the
// program says.
//
// To run, it connects by the rules of [kube.Connect] and takes the flags
//
//	-addr      where it answers health, readiness and metrics; by default the
//	           address of the operator's Options, or else 127.0.0.1:8080
//	-install   whether it installs the definitions first, as [crd.Install] does;
//	           by default it does
//
// besides those that the program has defined in package flag, which are parsed
// when build is called. The Deployment that is printed has it listen on its Port,
// by default 8080, and install nothing: the definitions come with the manifests, so
// that a program in the cluster needs no right to change any.
//
// On SIGINT and SIGTERM it stops as [controller.Run] says, and ends with status 0,
// also when that is before the definitions are installed; a second signal ends it
// at once. It ends with status 1 and the reason in the log if it cannot go on, and
// with status 2 if the command line is wrong.
func Main(build func(*kube.Client) (Operator, error)) {
	ctx, stop := controller.Signals()
	err := command{flags: flag.CommandLine, args: os.Args[1:], out: os.Stdout, build: build}.run(ctx)
	stop()
	switch wrong := (*usageError)(nil); {
	case err == nil:
	case errors.As(err, &wrong):
		fmt.Fprintln(flag.CommandLine.Output(), err)
		os.Exit(2)
	default:
		slog.Error("the operator ends", "error", err)
		os.Exit(1)
	}
}

// usageError is about the command line.
type usageError struct{ error }

// command is a call of a program.
type command struct {
	flags *flag.FlagSet
	args  []string
	out   io.Writer
	build func(*kube.Client) (Operator, error)
}

func (c command) run(ctx context.Context) error {
	for _, name := range []string{"addr", "install"} {
		if c.flags.Lookup(name) != nil {
			return &usageError{fmt.Errorf("the program defines the flag -%s, which is for manifest.Main to define", name)}
		}
	}
	address := c.flags.String("addr", "", "`address` of health, readiness and metrics; \":8080\" is all of this machine's\n(default \""+defaultAddress+"\", unless the operator has another)")
	install := c.flags.Bool("install", true, "install the definitions of the operator's kinds first")
	c.flags.Usage = func() {
		fmt.Fprintf(c.flags.Output(), "%[1]s [flags]            runs the operator\n%[1]s manifests [flags]  prints what a cluster needs to run it (-h says more)\n", c.flags.Name())
		c.flags.PrintDefaults()
	}
	if err := c.flags.Parse(c.args); err != nil {
		return &usageError{err}
	}
	switch {
	case c.flags.NArg() == 0:
		return c.operate(ctx, *address, *install)
	case c.flags.Arg(0) == "manifests":
		return c.print(c.flags.Args()[1:])
	}
	return &usageError{fmt.Errorf("%q is no command: without one the operator runs, and manifests prints what a cluster needs for that", c.flags.Arg(0))}
}

// operate runs the operator until ctx ends.
func (c command) operate(ctx context.Context, address string, install bool) error {
	client, err := kube.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	o, err := c.build(client)
	if err != nil {
		return err
	}
	if install && len(o.Definitions) > 0 {
		err := crd.Installer{Logger: o.Options.Logger}.Install(ctx, client, o.Definitions...)
		switch {
		case err != nil && ctx.Err() != nil:
			slog.Info("stopped before the definitions were installed", "waitedFor", err)
			return nil
		case err != nil:
			return err
		}
	}
	options := o.Options
	options.Address = cmp.Or(address, options.Address, defaultAddress)
	options.Lease.Name = cmp.Or(options.Lease.Name, o.Lease)
	return controller.Run(ctx, options, o.Controllers...)
}

// print prints the manifests of the operator, or writes its chart.
func (c command) print(args []string) error {
	flags := flag.NewFlagSet("manifests", c.flags.ErrorHandling())
	flags.SetOutput(c.flags.Output())
	chart := flags.String("chart", "", "`directory` to write a Helm chart to, instead of printing YAML")
	image := flags.String("image", "", "`name` of the image to run, instead of the program's own")
	namespace := flags.String("namespace", "", "`namespace` to run in, instead of the program's own")
	replicas := flags.Int("replicas", 0, "how many run, of which one acts")
	if err := flags.Parse(args); err != nil {
		return &usageError{err}
	}
	if flags.NArg() > 0 {
		return &usageError{fmt.Errorf("manifests takes no argument %q", flags.Arg(0))}
	}
	// Handles ask this server for nothing until they are used.
	nowhere, err := kube.Config{Rest: &rest.Config{Host: "https://kubernetes.default.svc"}}.Connect()
	if err != nil {
		return err
	}
	o, err := c.build(nowhere)
	if err != nil {
		return err
	}
	o = o.deployed()
	o.Image = cmp.Or(*image, o.Image)
	o.Namespace = cmp.Or(*namespace, o.Namespace)
	o.Replicas = cmp.Or(int32(*replicas), o.Replicas)
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

// deployed returns the operator with the arguments that [Main] takes.
func (o Operator) deployed() Operator {
	o.Port = cmp.Or(o.Port, defaultPort)
	own := []string{fmt.Sprintf("-addr=:%d", o.Port)}
	if len(o.Definitions) > 0 {
		own = append(own, "-install=false")
	}
	o.Args = append(own, o.Args...)
	return o
}
