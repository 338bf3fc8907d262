// Command run shows the operators at work: it starts a Kubernetes with two
// simulated nodes, installs the definitions of Book and Foo, runs Book, Foo, Echo
// and Letter as processes, gives them samples, shows what they say and how to talk to them,
// and stays until Ctrl-C, which ends all that it started. Run it in a checkout.
//
// Environment:
//
//	ONCE=1            end once all of it has been seen working, with status 0;
//	                  with status 1 if it has not after two minutes
//	CLUSTER=current   use the cluster that KUBECONFIG names, and start none
//
// In a current cluster it works in the namespace of the kubeconfig's context. At
// the end the samples are deleted and the definitions stay, because deleting
// a definition deletes all objects of its kind, whosever they are. Samples that
// are there already and are not this command's are left alone: it ends, and says
// so.
//
// It ends in order on SIGINT, SIGTERM and SIGHUP, and when the process that
// started it has gone; the second signal ends it at once. Nothing outlives it,
// however it ends: the operators die with it (see package program), and the
// cluster ends by itself when its owner is gone.
//
// Where to read on: run.go says what happens in which order, show.go what is seen
// of the operators, and package local where the cluster comes from.
package main

import (
	"fmt"
	"os"

	"github.com/pintle-go/pintle/operators/internal/local"
)

func main() {
	s := settings{once: os.Getenv("ONCE") != "" && os.Getenv("ONCE") != "0"}
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
