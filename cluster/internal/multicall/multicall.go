// Package multicall runs one of the programs that a binary contains.
package multicall

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"

	"github.com/pintle-go/pintle/cluster/internal/lifeline"
)

// Main runs the program whose name is the first argument, or the name that this process
// was started under (for example through a link), and exits with its status. The
// functions find their arguments in os.Args[1:] and return the exit status.
func Main(programs map[string]func() int) {
	lifeline.Watch()
	binary := filepath.Base(os.Args[0])
	run, ok := programs[binary]
	if !ok && len(os.Args) > 1 {
		// A program then finds its arguments as in a binary of its own.
		os.Args = os.Args[1:]
		run, ok = programs[os.Args[0]]
	}
	if !ok {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintf(os.Stderr, "usage: %s PROGRAM [arguments]\nprograms: %s\n", binary, strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

// Command returns a function for [Main] that runs a command of Kubernetes.
func Command(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}
