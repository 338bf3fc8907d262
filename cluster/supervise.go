package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

// An order is the input that up passes to the supervisor that it starts.
type order struct {
	supervisor.Ownership

	Dir      state.Dir      `json:"dir"`
	Settings state.Settings `json:"settings"`
	Binary   string         `json:"binary"`
}

// supervise runs a cluster. It reads the order from its standard input and writes the
// report to its file descriptor 3.
func supervise(ctx context.Context, _ target, args []string) error {
	if len(args) > 0 {
		return errors.New("supervise is for the command up only: use up")
	}
	pipe := os.NewFile(3, "report")
	if pipe == nil {
		return errors.New("supervise is for the command up only: use up")
	}
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return fmt.Errorf("read the supervisor's order: %w", err)
	}
	tell := func(r report) {
		_ = json.NewEncoder(pipe).Encode(r) // if up has ended, no process reads the report
	}
	err := supervisor.Run(ctx, supervisor.Config{
		Dir: o.Dir, Settings: o.Settings, Binary: o.Binary, Ownership: o.Ownership, Nodes: nodesFor(o.Settings),
		Progress: func(text string) { tell(report{Progress: text}) },
		Ready: func(s supervisor.Status) {
			tell(report{Status: &s})
			pipe.Close()
		},
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		tell(report{Error: err.Error()})
	}
	return err
}
