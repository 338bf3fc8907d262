package program

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"github.com/pintle-go/pintle/internal/private"
)

// elsewhere says how the user chooses another cache.
const elsewhere = "set HOME, or XDG_CACHE_HOME on Linux, to a directory of your own"

// CacheDir makes and returns this user's directory for programs that are built from the
// working directory. The go command links a program again only if the one in the
// directory is out of date. A running program may be replaced.
func CacheDir() (string, error) {
	source, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the sources: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w", err)
	}
	cache, _ = private.Own(cache, ".cache")
	hash := sha256.Sum256([]byte(source))
	dir := filepath.Join(cache, "pintle", "operators", fmt.Sprintf("%x", hash[:8]))
	// A user who can write to the directory could have this user run any program.
	if err := private.Dir(dir, elsewhere); err != nil {
		return "", err
	}
	return dir, nil
}

// Build builds main packages of this module into a directory, with the race detector if
// race is set, otherwise as they are shipped. It returns the paths of the programs.
func Build(ctx context.Context, dir string, race bool, packages ...string) ([]string, error) {
	// Nobody looks at these programs with a debugger, and its tables take a third of the linker's time.
	args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	env := append(os.Environ(), "GOFLAGS=") // the caller's flags concern the caller only
	if race {
		args = append(args, "-race")
	} else {
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
