package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/pintle-go/pintle/cluster/internal/build"
)

// kubectl replaces this process with kubectl, with the cluster's kubeconfig.
func kubectl(ctx context.Context, t target, args []string) error {
	dir, err := t.dir()
	if err != nil {
		return err
	}
	_, err = dir.Record()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no cluster in %s: start it with up (--name and --dir go before the word kubectl)", dir)
	}
	if err != nil {
		return err
	}
	binary, err := builder().Program(ctx, build.Kubectl)
	if err != nil {
		return err
	}
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "KUBECONFIG=") {
			env = append(env, variable)
		}
	}
	env = append(env, "KUBECONFIG="+dir.Kubeconfig())
	err = syscall.Exec(binary, append([]string{"kubectl"}, args...), env)
	return fmt.Errorf("run kubectl: %w", err)
}
