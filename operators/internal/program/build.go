package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// Build builds main packages of this module into a directory, with the race detector if
// race is set, otherwise as they are shipped. It returns the paths of the programs.
func Build(ctx context.Context, dir string, race bool, packages ...string) ([]string, error) {
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	env := append(os.Environ(), "GOFLAGS=") // the caller's flags concern the caller only
	if race {
		// Without -trimpath it shares the packages that go test -race has compiled.
		args = append(args, "-race")
	} else {
		args = append(args, "-trimpath", "-ldflags=-s -w")
		env = append(env, "CGO_ENABLED=0")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %q: %w\n%s", packages, err, out)
	}
	paths := make([]string, 0, len(packages))
	for _, p := range packages {
		paths = append(paths, filepath.Join(dir, path.Base(p)))
	}
	return paths, nil
}
