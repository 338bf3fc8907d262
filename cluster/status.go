package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

// status prints the components and their states. The exit status is 1 if the cluster does
// not run.
func status(ctx context.Context, t target, args []string) error {
	asJSON := false
	_, err := t.parse("status", "", args, func(flags *flag.FlagSet) {
		flags.BoolVar(&asJSON, "json", false, "print the status as JSON")
	})
	if err != nil {
		return err
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	running, err := dir.Supervised()
	if err != nil {
		return err
	}
	if !running {
		if dir.Exists() {
			say("the cluster in %s is not running", dir)
		} else if err := absent(say, dir); err != nil {
			return err
		}
		return exitStatus(1)
	}
	s, err := supervisor.NewClient(dir).Status(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(s)
	}
	fmt.Printf(
		"cluster %s is %s, up for %s (supervisor %d)\n", s.Name, s.Phase, time.Since(s.Started).Round(time.Second), s.PID,
	)
	fmt.Printf("server      %s\nkubeconfig  %s\nstate       %s\n\n", s.Server, s.Kubeconfig, s.Dir)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tSTATE\tPID\tRESTARTS")
	for _, c := range s.Components {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\n", c.Name, c.State, c.PID, c.Restarts)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	for _, c := range s.Components {
		if c.LastEnd != "" {
			fmt.Printf("\nlast run: %s\n", c.LastEnd)
		}
	}
	return nil
}
