// Command sh stands in for the image busybox, which the tests of kube-rs run in pods. The
// image cannot be downloaded where there are only package registries. It interprets a
// shell script, which comes after -c or from standard input, and it knows the commands
// sleep and seq.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

func main() {
	script := flag.String("c", "", "script to interpret in place of standard input")
	flag.Parse()
	var input io.Reader = os.Stdin
	if *script != "" {
		input = strings.NewReader(*script)
	}
	err := run(context.Background(), input)
	var status interp.ExitStatus
	if errors.As(err, &status) {
		os.Exit(int(status))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sh:", err)
		os.Exit(2)
	}
}

// run interprets each statement as soon as it is read, because a client may wait for its
// output before it sends the next one.
func run(ctx context.Context, input io.Reader) error {
	commands := func(next interp.ExecHandlerFunc) interp.ExecHandlerFunc {
		return func(ctx context.Context, args []string) error {
			switch {
			case args[0] == "sleep" && len(args) == 2:
				return sleep(ctx, args[1])
			case args[0] == "seq" && len(args) == 3:
				return seq(interp.HandlerCtx(ctx).Stdout, args[1], args[2])
			}
			return next(ctx, args)
		}
	}
	shell, err := interp.New(interp.StdIO(nil, os.Stdout, os.Stderr), interp.ExecHandlers(commands))
	if err != nil {
		return err
	}
	for statement, err := range syntax.NewParser().StmtsSeq(input) {
		if err != nil {
			return err
		}
		if err := shell.Run(ctx, statement); err != nil || shell.Exited() {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, text string) error {
	d, err := time.ParseDuration(strings.TrimSuffix(text, "s") + "s")
	if err != nil {
		return err
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func seq(out io.Writer, first, last string) error {
	from, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	to, err := strconv.Atoi(last)
	if err != nil {
		return err
	}
	for i := from; i <= to; i++ {
		if _, err := fmt.Fprintln(out, i); err != nil {
			return err
		}
	}
	return nil
}
