package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// Main is the main function of a measured program. The first argument names the store to
// measure. Main reads the plan from standard input and writes the result to standard
// output. The server is that of KUBECONFIG.
func Main(stores map[string]Store) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, stores); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stores map[string]Store) error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: %s STORE <PLAN", os.Args[0])
	}
	s, ok := stores[os.Args[1]]
	if !ok {
		var names []string
		for name := range stores {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("no store is called %q, there are %s", os.Args[1], strings.Join(names, ", "))
	}
	var plan Plan
	if err := json.NewDecoder(os.Stdin).Decode(&plan); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	r, err := Run(ctx, s, plan)
	if err != nil {
		return fmt.Errorf("measure %s: %w", os.Args[1], err)
	}
	return r.Write(os.Stdout)
}
