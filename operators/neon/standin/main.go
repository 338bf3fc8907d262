// Standin is one program that stands in for Neon's storage_broker, storage_controller,
// safekeeper, pageserver and compute_ctl in tests. It is no part of Neon. It acts as the program
// whose name it is called by, or that its first argument names, and takes the flags, the
// environment and the files of that program.
//
// STANDIN_ADMIN_ADDR is an address on which it takes faults and tells its requests: see
// package wire. It belongs to no real program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/clap"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/compute"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// program runs as one of Neon's programs until ctx ends.
type program func(ctx context.Context, args []string, stderr io.Writer) error

var programs = map[string]program{
	"storage_broker": runBroker, "storage_controller": runController, "safekeeper": runSafekeeper, "pageserver": runPageserver,
}

const computeName = "compute_ctl"

func main() {
	if file := os.Getenv(hostsVariable); file != "" {
		net.DefaultResolver = resolver(file)
		http.DefaultTransport.(*http.Transport).DialContext = toServices(file)
	}
	os.Exit(run(os.Args, os.Stderr))
}

// usage is the status of all programs for flags that they do not take.
const usage = 2

func run(args []string, stderr io.Writer) int {
	name := filepath.Base(args[0])
	if programs[name] == nil && name != computeName && len(args) > 1 {
		name, args = filepath.Base(args[1]), args[1:]
	}
	if name == computeName {
		return compute.Main(args[1:], stderr)
	}
	start := programs[name]
	if start == nil {
		fmt.Fprintf(stderr, "%s: no program of Neon that the stand-in knows\n", name)
		return usage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	defer stop()
	err := start(ctx, args[1:], stderr)
	var wrong *clap.UsageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "error: %v\n", err)
		return usage
	}
	fmt.Fprintf(stderr, "Error: %v\n", err)
	return 1
}

// duration is a flag like "30s", in the words of Rust's humantime as far as Go knows them.
type duration time.Duration

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(text string) error {
	parsed, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		return err
	}
	*d = duration(parsed)
	return nil
}

func newLog() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stdout, nil)) }

func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}

// admin serves the faults and the requests of a program, if it is asked to.
func admin(ctx context.Context, faults *wire.Faults) error {
	address := os.Getenv("STANDIN_ADMIN_ADDR")
	if address == "" {
		return nil
	}
	listener, err := listen(address)
	if err != nil {
		return err
	}
	go func() { _ = wire.Serve(ctx, listener, faults.Admin()) }() // ends with the program
	return nil
}
