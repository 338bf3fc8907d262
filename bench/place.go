package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// place is the directory and environment for commands that build programs.
type place struct {
	dir    string
	goWork string // GOWORK: "off", or the workspace that the directory is in if empty
}

// command runs a command in the place, for programs without cgo.
func (p place) command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GOWORK=") && !strings.HasPrefix(variable, "PWD=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOWORK="+p.goWork)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, tail(string(output), 5))
	}
	return nil
}
