// Command run shows the operators at work. It starts a Kubernetes with two simulated
// nodes, installs the definitions of Book and Foo, and runs Book, Foo, Echo, Letter,
// Shop, Farm and Neon as processes, with a stand-in for the payment service that shops need. It
// gives them samples, shows their output and prints commands to try. It stays until Ctrl-C,
// which ends everything that it started. Run it in a checkout.
//
// The pods of Neon's database run as processes too: stand-ins for Neon's programs, with the
// PostgreSQL of this machine. Without one, or on another system than Linux, Neon is left out,
// and the command says so.
//
// Environment:
//
//	ONCE=1            end once all of it has been seen working, with status 0;
//	                  with status 1 if it has not after four minutes
//	CLUSTER=current   use the cluster that KUBECONFIG names, and start none
//	FARM=1            run Farm in that cluster too: its kube-apiserver runs on this
//	                  machine, outside of containers, so it can connect to Farm
//
// In a current cluster it works in the namespace of the kubeconfig's context. At the end
// the samples are deleted and the definitions stay, because deleting a definition deletes
// all objects of its kind, of any owner. If samples exist that this command did not
// create, it leaves them alone, prints an error and ends.
//
// It ends in order on SIGINT, SIGTERM and SIGHUP, and when the process that started it
// has ended; the second signal ends it at once. Nothing outlives it, however it ends: the
// operators die with it (see package program), and the cluster ends by itself when its
// owner is gone.
//
// Where to read on: run.go has the steps in order, operators.go has the list of operators with
// their demonstrations, which are in show.go and neon.go, and package local starts the cluster.
package main

import (
	"fmt"
	"os"

	"github.com/pintle-go/pintle/operators/internal/local"
)

func main() {
	set := func(name string) bool { return os.Getenv(name) != "" && os.Getenv(name) != "0" }
	s := settings{once: set("ONCE"), near: set("FARM")}
	s.Out, s.FieldManager = &local.Output{Name: "run", To: os.Stdout}, fieldManager
	var err error
	if s.current, err = local.AskedForCurrent(); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(2)
	}
	if err := run(local.Context(s.Out), s); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}
