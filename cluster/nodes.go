package main

import (
	"context"
	"fmt"

	"github.com/pintle-go/pintle/cluster/internal/controlplane"
	"github.com/pintle-go/pintle/cluster/internal/realnode"
	"github.com/pintle-go/pintle/cluster/internal/simulate"
	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
	"github.com/pintle-go/pintle/kube"
)

// nodesFor returns the nodes that the settings ask for.
func nodesFor(s state.Settings) []supervisor.Node {
	var nodes []supervisor.Node
	if s.Nodes > 0 {
		nodes = append(nodes, simulated(s.Nodes))
	}
	if s.RealNode {
		nodes = append(nodes, &realnode.Node{Builder: builder()})
	}
	return nodes
}

// simulated is a number of simulated nodes.
type simulated int

// Prepare succeeds, because any machine can simulate nodes.
func (simulated) Prepare(context.Context, *controlplane.Plane) error { return nil }

// Run simulates the nodes.
func (n simulated) Run(ctx context.Context, env supervisor.Environment, ready func()) error {
	client, err := kube.Config{Rest: env.Admin, FieldManager: "pintle-simulate", Logger: env.Log}.Connect()
	if err != nil {
		return fmt.Errorf("simulate nodes: %w", err)
	}
	return simulate.Run(ctx, client, simulate.Options{Nodes: int(n), Ready: ready, Logger: env.Log})
}
