package kubetest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

const (
	rootModule    = "github.com/pintle-go/pintle"
	clusterModule = rootModule + "/cluster"
)

// A source is the origin of this package and of the cluster command.
type source struct {
	checkout string // the directory of the cluster module in a checkout
	version  string // otherwise the version of both modules
	modules  string // the module cache that has the version, if it is known
}

// findSource returns the source of this package. It asks the go command only if the
// package was built with -trimpath, outside a checkout.
func findSource(ctx context.Context) (source, error) {
	_, file, _, _ := runtime.Caller(0)
	if s, ok := sourceOf(filepath.Dir(filepath.Dir(file))); ok {
		return s, nil
	}
	if s, ok := sourceAround(file); ok {
		return s, nil
	}
	// A test binary does not record its source, but a test runs in the directory of its
	// package, and there the go command knows.
	const format = "{{.Dir}}\n{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}"
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", format, rootModule).Output()
	if err == nil {
		dir, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if s, ok := sourceOf(dir); ok {
			return s, nil
		}
		if version != "" {
			return source{version: version}, nil
		}
	} else if errors.Is(err, exec.ErrNotFound) {
		return source{}, fmt.Errorf("find the go command: %w", err)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return source{}, errors.New("this program was built without module information")
	}
	for _, module := range append(info.Deps, &info.Main) {
		if module.Replace != nil {
			module = module.Replace
		}
		if module.Path == rootModule && module.Sum != "" {
			return source{version: module.Version}, nil
		}
	}
	return source{}, fmt.Errorf(
		"cannot find a checkout of %s or its version (run tests in the directory of their package)", rootModule,
	)
}

// sourceOf returns the source in a directory of the root module: a checkout, in which the
// cluster module is below the root module, or a directory of a module cache.
func sourceOf(dir string) (source, bool) {
	if !filepath.IsAbs(dir) {
		return source{}, false
	}
	checkout := filepath.Join(dir, "cluster")
	if isModule(checkout, clusterModule) {
		return source{checkout: checkout}, true
	}
	name, version, _ := strings.Cut(filepath.Base(dir), "@")
	modules, ok := strings.CutSuffix(filepath.Join(filepath.Dir(dir), name), filepath.FromSlash("/"+rootModule))
	if _, err := os.Stat(dir); err != nil || !ok || version == "" {
		return source{}, false
	}
	return source{version: version, modules: modules}, true
}

// sourceAround returns the checkout in which a test runs, if this package was built in a
// checkout with -trimpath. Then the path of its file begins with its module's.
func sourceAround(file string) (source, bool) {
	dir, err := os.Getwd()
	if err != nil || !strings.HasPrefix(file, rootModule+"/") {
		return source{}, false
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if isModule(dir, rootModule) {
			return sourceOf(dir)
		}
	}
	return source{}, false
}

// isModule reports whether a directory has the go.mod of a module. In a vendored module a
// directory named cluster beside the test is the user's own.
func isModule(dir, module string) bool {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && slices.ContainsFunc(strings.Split(string(mod), "\n"), func(line string) bool {
		fields := strings.Fields(line)
		return len(fields) > 1 && fields[0] == "module" && strings.Trim(fields[1], `"`) == module
	})
}

// moduleSum returns the checksum of a version of a module: from the module cache, or from
// the go command, which downloads it if necessary.
func moduleSum(ctx context.Context, modules, module, version string) (string, error) {
	if modules != "" {
		file := filepath.Join(modules, "cache", "download", filepath.FromSlash(path.Join(module, "@v", version+".ziphash")))
		if sum, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(sum)), nil
		}
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir, cmd.Env = os.TempDir(), append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output() // of a failed download too
	var downloaded struct{ Sum, Error string }
	if jerr := json.Unmarshal(out, &downloaded); err != nil || jerr != nil || downloaded.Sum == "" {
		return "", fmt.Errorf("find the checksum of %s@%s: %w %s", module, version, errors.Join(err, jerr), downloaded.Error)
	}
	return downloaded.Sum, nil
}

// A built is the record of a command that was built from a checkout.
type built struct {
	Dirs []string // of the packages in the checkout that the command consists of
	Key  string   // of the sources that it was built from
}

// digest returns a key of the sources of a command: of the names, sizes and times of the
// files in the directories of its packages, and of the module files.
func digest(checkout string, dirs []string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version())
	add := func(path string, info fs.FileInfo) {
		fmt.Fprintln(hash, path, info.Size(), info.ModTime().Format(time.RFC3339Nano))
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", fmt.Errorf("list sources: %w", err)
		}
		for _, entry := range entries {
			if entry.IsDir() || strings.HasSuffix(entry.Name(), "_test.go") {
				continue
			}
			info, err := entry.Info()
			if err != nil {
				return "", fmt.Errorf("list sources: %w", err)
			}
			add(filepath.Join(dir, entry.Name()), info)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "go.work", "go.work.sum", "cluster/go.mod", "cluster/go.sum"} {
		file := filepath.Join(filepath.Dir(checkout), name)
		if info, err := os.Stat(file); err == nil {
			add(file, info)
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:8]), nil
}

// packageDirs returns the directories of the packages in a checkout that the command
// consists of.
func packageDirs(ctx context.Context, checkout string) ([]string, error) {
	out, err := goCommand(ctx, checkout, nil, "list", "-deps", "-f", "{{if not .Standard}}{{.Dir}}{{end}}", ".")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for dir := range strings.Lines(out) {
		dir = strings.TrimSpace(dir)
		if dir == checkout || strings.HasPrefix(dir, filepath.Dir(checkout)+string(filepath.Separator)) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}
