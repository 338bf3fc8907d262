package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/cluster/internal/simulate"
	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
	"github.com/pintle-go/pintle/kube"
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
	if s.Phase == supervisor.Ready {
		if s.NotReady = notReady(ctx, dir); len(s.NotReady) > 0 {
			s.Phase = degraded
		}
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
	for _, node := range s.NotReady {
		fmt.Printf("\nnode %s\n", node)
	}
	for _, c := range s.Components {
		if c.LastEnd != "" {
			fmt.Printf("\nlast run: %s\n", c.LastEnd)
		}
	}
	return nil
}

// degraded is the phase of a cluster that runs and whose nodes are not all Ready.
const degraded = "degraded"

// notReady returns the nodes of a cluster that are not Ready now, and why. The supervisor does not know them: the
// node lifecycle controller judges nodes, also while the supervisor stands still.
func notReady(ctx context.Context, dir state.Dir) (nodes []string) {
	record, err := dir.Record()
	if err != nil || record.Settings.Nodes == 0 && !record.Settings.RealNode {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	admin, err := supervisor.AdminConfig(dir.Kubeconfig())
	if err != nil {
		return []string{fmt.Sprintf("conditions are unknown: %v", err)}
	}
	client, err := kube.Config{Rest: admin, FieldManager: "pintle-status", Logger: slog.New(slog.DiscardHandler)}.Connect()
	if err != nil {
		return []string{fmt.Sprintf("conditions are unknown: %v", err)}
	}
	defer client.Close()
	all := kube.For[corev1.Node](client)
	if !record.Settings.RealNode { // users make nodes of their own, which nobody runs
		all = all.Labeled(simulate.Label)
	}
	for n, err := range all.List(ctx) {
		if err != nil {
			return append(nodes, fmt.Sprintf("conditions are unknown: %v", err))
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				nodes = append(nodes, fmt.Sprintf("%s is not Ready since %s: %s (%s)",
					n.Name, c.LastTransitionTime.Format(time.TimeOnly), c.Message, c.Reason))
			}
		}
	}
	return nodes
}
