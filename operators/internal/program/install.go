package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/pintle-go/pintle/internal/private"
)

// ObjectStore is an object store for development and tests: its package and version.
const ObjectStore = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// Install builds a program of another module, PACKAGE@VERSION, in this user's cache, unless it is
// there, and returns its path. Processes that need the same program wait for one build.
func Install(ctx context.Context, module string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w", err)
	}
	cache, _ = private.Own(cache, ".cache")
	name, version, _ := strings.Cut(path.Base(module), "@")
	dir := filepath.Join(cache, "pintle", "programs", name+"-"+version)
	// A user who can write to the directory could have this user run any program.
	if err := private.Dir(dir, elsewhere); err != nil {
		return "", err
	}
	unlock, err := private.Lock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	next := filepath.Join(dir, "next") // a build that is killed leaves half a program there
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", module)
	cmd.Dir = dir // outside of any module
	cmd.Env = append(os.Environ(), "GOBIN="+next, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", module, err, out)
	}
	if err := os.Rename(filepath.Join(next, name), file); err != nil {
		return "", fmt.Errorf("keep %s: %w", module, err)
	}
	return file, nil
}
