// Command cluster runs a real Kubernetes on this machine: kube-apiserver, etcd,
// kube-controller-manager and kube-scheduler, built from Go modules, with certificates
// and RBAC as in any cluster, on loopback addresses only.
//
//	cluster up        start the cluster (or report that it runs), return when it is ready
//	cluster kubectl   run kubectl on it
//	cluster status    print the components and the addresses
//	cluster logs      print the logs of the components
//	cluster down      end the cluster; its objects are kept for the next up
//
// It is a launcher: the components are in cmd/kubernetes, cmd/node and cmd/kubectl. It
// builds each of them on first use. Where to read on:
//
//	up.go, running.go, down.go, status.go, logs.go, kubectl.go, load.go, disturb.go
//	                      the commands
//	supervise.go          the process that up leaves running
//	nodes.go              the nodes that a cluster gets
//	internal/build        makes these binaries and shows progress
//	internal/state        the state directory and its locks
//	internal/pki          certificates and kubeconfigs
//	internal/controlplane the flags and files that each component is started with
//	internal/process      starts programs so that none outlives its supervisor
//	internal/lifeline     ends a program whose supervisor is gone
//	internal/simulate     simulates nodes
//	internal/realnode     makes this machine a node
//	image                 makes container images of Go programs
//	internal/supervisor   the life of a running cluster
//	cmd/kubernetes        the control plane, one binary
//	cmd/node              kubelet and kube-proxy
//	cmd/kubectl           kubectl
package main

import (
	"cmp"
	"context"
	_ "embed" // for goMod
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/pintle-go/pintle/cluster/internal/build"
	"github.com/pintle-go/pintle/cluster/internal/state"
)

//go:embed go.mod
var goMod []byte

const usage = `A real Kubernetes on this machine.

usage: cluster [--name NAME | --dir DIR] COMMAND [flags]

  up         start the cluster and return when it is ready
  down       stop the cluster; --delete removes its objects too
  status     show what runs; exit status 1 if the cluster does not run
  kubectl …  run kubectl against it
  logs       show the components' logs
  image      make a container image of a Go main package
  load       load an image into the real node: an archive or a Go main package
  build      build the control plane now, so that up need not; with names, these
             programs: kubernetes (the control plane), node (of --node real), kubectl
  assets     print a directory for KUBEBUILDER_ASSETS: envtest then runs this Kubernetes
  start, stop, kill, restart, pause, resume COMPONENT
             act on one component, to test how your program reacts
  compact    remove the history of etcd

cluster COMMAND --help shows a command's flags. Clusters of different names are
separate and can run side by side. Set PINTLE_HOME to keep them in another
directory than ~/.pintle.
`

func main() {
	err := run(os.Args[1:])
	var status exitStatus
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, &status):
		os.Exit(int(status))
	default:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// exitStatus is an error that ends the program without a message.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	var t target
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	t.flags(flags)
	if err := flags.Parse(args); err != nil {
		return usageError(err)
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return exitStatus(2)
	}
	name, args := flags.Arg(0), flags.Args()[1:]
	command, ok := commands()[name]
	if !ok {
		flags.Usage()
		return fmt.Errorf("there is no command %q", name)
	}
	return command(ctx, t, args)
}

func commands() map[string]func(context.Context, target, []string) error {
	all := map[string]func(context.Context, target, []string) error{
		"up":        up,
		"supervise": supervise, // started by up and left running
		"down":      down,
		"status":    status,
		"kubectl":   kubectl,
		"logs":      logs,
		"load":      load,
		"image":     makeImage,
		"build":     buildOnly,
		"assets":    assets,
		"compact":   compact,
	}
	for _, action := range disturbances() {
		all[action] = func(ctx context.Context, t target, args []string) error {
			return disturb(ctx, t, action, args)
		}
	}
	return all
}

// A target is the cluster that a command acts on.
type target struct {
	name string
	path string
}

const defaultName = "default"

// flags adds the flags that choose the cluster. They are accepted before the command and
// after it.
func (t *target) flags(flags *flag.FlagSet) {
	flags.StringVar(&t.name, "name", cmp.Or(t.name, defaultName), "name of the cluster")
	flags.StringVar(&t.path, "dir", t.path, "keep the cluster in this directory instead of ~/.pintle/clusters/NAME")
}

func (t *target) dir() (state.Dir, error) {
	if t.path != "" {
		return state.At(t.path)
	}
	return state.Named(t.name)
}

// parse reads a command's flags; arguments are the names of its other arguments.
func (t *target) parse(command, arguments string, args []string, define func(*flag.FlagSet)) (*flag.FlagSet, error) {
	flags := flag.NewFlagSet("cluster "+command, flag.ContinueOnError)
	t.flags(flags)
	if define != nil {
		define(flags)
	}
	flags.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: cluster %s [flags] %s\n", command, arguments)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return nil, usageError(err)
	}
	if arguments == "" && flags.NArg() > 0 {
		return nil, fmt.Errorf("%s takes no argument %q", command, flags.Arg(0))
	}
	return flags, nil
}

// say prints messages for people. Standard output is reserved for the requested output.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// usageError is an error that package flag has printed already.
func usageError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return exitStatus(2)
}

func builder() build.Builder { return build.Builder{GoMod: goMod, Output: os.Stderr} }

// buildOnly builds the control plane, or the named programs.
func buildOnly(ctx context.Context, t target, args []string) error {
	flags, err := t.parse("build", "[kubernetes] [node] [kubectl]", args, nil)
	if err != nil {
		return err
	}
	programs := []build.Program{build.ControlPlane}
	if flags.NArg() > 0 {
		programs = nil
	}
	for _, name := range flags.Args() {
		program := build.Program(name)
		if !slices.Contains(build.Programs, program) {
			return fmt.Errorf("build %q: want some of %v", name, build.Programs)
		}
		programs = append(programs, program)
	}
	for _, program := range programs {
		path, err := builder().Program(ctx, program)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

// assets is for the tests of controllers that are written with controller-runtime.
func assets(ctx context.Context, t target, args []string) error {
	if _, err := t.parse("assets", "", args, nil); err != nil {
		return err
	}
	dir, err := builder().Assets(ctx)
	if err != nil {
		return err
	}
	fmt.Println(dir)
	return nil
}
