//go:build !linux

package realnode

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"

	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

var errSystem = fmt.Errorf("a real node cannot run here: it needs Linux, and this is %s", runtime.GOOS)

// Check reports, in one line, why a real node cannot run on this machine.
func Check() error { return errSystem }

// Run always fails: a real node needs Linux.
func (n *Node) Run(context.Context, supervisor.Environment, func()) error { return errSystem }

// Clean does nothing, because no node can have run on this system.
func Clean(string) error { return nil }

// Load always fails, because there is no node.
func Load(context.Context, string, string) error { return errNoNode }

func networksInUse(string) ([]netip.Prefix, error) { return nil, errSystem }

func claimName(string) (func(), error) { return nil, errSystem }
