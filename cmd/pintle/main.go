// Command pintle makes new operators.
//
//	pintle new NAME --kind Foo --group example.com    write a new operator into the folder NAME
//	pintle version                                    print the version of pintle
//
// It needs no installation:
//
//	go run github.com/pintle-go/pintle/cmd/pintle@VERSION new …
//
// The new operator is a copy of the one in the directory template, with other names. That
// one is compiled and tested with the toolkit. Where to read on: new.go writes the folder,
// names.go checks the names, copy.go replaces them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
)

const usage = `pintle makes Kubernetes operators.

usage:
  pintle new NAME --kind KIND --group GROUP [flags]
                    write a new operator into a folder (--help lists the flags)
  pintle version    print the version of pintle
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	c := command{out: os.Stdout, messages: os.Stderr, release: release()}
	err := c.run(ctx, os.Args[1:])
	stop()
	switch wrong := (*usageError)(nil); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, "pintle:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "pintle:", err)
		os.Exit(1)
	}
}

// command is one call of the program.
type command struct {
	out      io.Writer
	messages io.Writer
	release  string // the version of this program; empty if it has none
}

// usageError is an error of the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func (c command) run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(c.out, usage)
		return nil
	}
	switch args[0] {
	case "new":
		return c.create(ctx, args[1:])
	case "version", "--version", "-version":
		if c.release == "" {
			fmt.Fprintln(c.out, "pintle (built from a checkout)")
			return nil
		}
		fmt.Fprintln(c.out, "pintle", c.release)
		return nil
	case "help", "--help", "-help", "-h":
		fmt.Fprint(c.out, usage)
		return nil
	}
	return &usageError{fmt.Errorf("there is no command %q: pintle new makes an operator", args[0])}
}

// release returns the version of this program, as a go.mod can require it. It is empty if
// the program was built from a checkout: the go command makes a version of a commit there,
// which others may not have.
func release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return releaseOf(info)
}

func releaseOf(info *debug.BuildInfo) string {
	checkout := slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "vcs" })
	if checkout || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}
