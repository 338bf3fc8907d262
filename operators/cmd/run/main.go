// Command run shows the operators at work: it starts a Kubernetes with two
// simulated nodes, installs the definitions of Book and Foo, runs both operators
// as processes, gives them samples, shows what they say and how to talk to them,
// and stays until Ctrl-C, which ends all that it started. Run it in a checkout.
//
// Environment:
//
//	ONCE=1            end once all of it has been seen working, with status 0;
//	                  with status 1 if it has not after two minutes
//	CLUSTER=current   use the cluster that KUBECONFIG names, and start none
//
// In a current cluster it works in the namespace of the kubeconfig's context. At
// the end the samples are deleted and the two definitions stay, because deleting
// a definition deletes all objects of its kind, whosever they are. Samples that
// are there already and are not this command's are left alone: it ends, and says
// so.
//
// It ends in order on SIGINT, SIGTERM and SIGHUP, and when the process that
// started it has gone; the second signal ends it at once. Nothing outlives it,
// however it ends: the operators die with it (see package program), and the
// cluster ends by itself when its owner is gone.
//
// Where to read on: run.go says what happens in which order, cluster.go where
// the cluster comes from, show.go what is seen of the operators.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	s := settings{out: &output{to: os.Stdout}, once: os.Getenv("ONCE") != "" && os.Getenv("ONCE") != "0"}
	switch os.Getenv("CLUSTER") {
	case "", "local":
	case "current":
		s.current = true
	default:
		fmt.Fprintf(os.Stderr, "run: CLUSTER=%s: it is \"current\", for the cluster that KUBECONFIG names, or empty, for a local one\n", os.Getenv("CLUSTER"))
		os.Exit(2)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go awaitSignals(s.out, cancel)
	go awaitOrphaned(ctx, cancel)
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// errAsked is the cause of a context that ended because somebody wanted it to.
var errAsked = errors.New("asked to end")

func awaitSignals(out *output, cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	first := <-signals
	cancel(fmt.Errorf("%w by signal: %v", errAsked, first))
	out.say("ending everything; once more to end at once")
	<-signals
	os.Exit(1)
}

// awaitOrphaned ends the program when the go command that runs it was killed:
// that hands no signal on.
func awaitOrphaned(ctx context.Context, cancel context.CancelCauseFunc) {
	parent := os.Getppid()
	for ctx.Err() == nil {
		if os.Getppid() != parent {
			cancel(fmt.Errorf("%w: the process that started this one has gone", errAsked))
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}
