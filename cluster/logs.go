package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/process"
)

// logs prints one component's log, or the last lines of all logs.
func logs(ctx context.Context, t target, args []string) error {
	follow := false
	flags, err := t.parse("logs", "[COMPONENT]", args, func(flags *flag.FlagSet) {
		flags.BoolVar(&follow, "f", false, "keep printing lines as they are added, until Ctrl-C")
	})
	if err != nil {
		return err
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(process.LogFile(string(dir), "*"))
	if err != nil {
		return fmt.Errorf("list logs: %w", err)
	}
	if len(files) == 0 {
		return fmt.Errorf("there are no logs in %s", dir)
	}
	if flags.NArg() == 0 {
		if follow {
			return errors.New("logs -f: name the component to follow")
		}
		for _, file := range files {
			fmt.Printf("==> %s <==\n", file)
			for _, line := range process.Tail(file, 10) {
				fmt.Println(line)
			}
			fmt.Println()
		}
		return nil
	}
	err = copyLog(ctx, process.LogFile(string(dir), flags.Arg(0)), follow)
	if errors.Is(err, os.ErrNotExist) {
		var names []string
		for _, file := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(file), ".log"))
		}
		return fmt.Errorf("%q has no log; there are %s", flags.Arg(0), strings.Join(names, ", "))
	}
	return err
}

func copyLog(ctx context.Context, name string, follow bool) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer file.Close()
	for {
		if _, err := io.Copy(os.Stdout, file); err != nil {
			return fmt.Errorf("print log: %w", err)
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
}
