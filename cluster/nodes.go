package main

import (
	"errors"

	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

// nodesFor returns what gives the cluster its nodes.
func nodesFor(s state.Settings) ([]supervisor.Node, error) {
	if s.Nodes > 0 {
		return nil, errors.New("simulated nodes are not built into this program")
	}
	if s.RealNode {
		return nil, errors.New("the real node is not built into this program")
	}
	return nil, nil
}
