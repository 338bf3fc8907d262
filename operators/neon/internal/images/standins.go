package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// standIns makes the images of the stand-ins. Both have the same files.
func (s *Set) standIns(ctx context.Context, dir string) error {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("no PostgreSQL here: apt-get install postgresql")
	}
	slices.Sort(found)
	server := filepath.Dir(filepath.Dir(found[len(found)-1]))
	root := filepath.Join(dir, "root")
	bin := filepath.Join(root, "usr/local/bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(bin, "neon-standin"),
		"github.com/pintle-go/pintle/operators/neon/standin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the stand-ins: %w\n%s", err, out)
	}
	for _, name := range []string{"storage_broker", "storage_controller", "safekeeper", "pageserver", "compute_ctl"} {
		if err := os.Symlink("neon-standin", filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	// PostgreSQL finds its files beside its program, and follows links.
	programs, err := os.ReadDir(filepath.Join(server, "bin"))
	if err != nil {
		return err
	}
	for _, p := range programs {
		if err := os.Symlink(filepath.Join(server, "bin", p.Name()), filepath.Join(bin, p.Name())); err != nil {
			return err
		}
	}
	if err := os.Symlink(server, filepath.Join(root, "usr/local/v17")); err != nil {
		return err
	}
	if s.PostgresVersion != "17" {
		if err := os.Symlink(server, filepath.Join(root, "usr/local/v"+s.PostgresVersion)); err != nil {
			return err
		}
	}
	share := filepath.Join("/usr/share/postgresql", filepath.Base(server))
	for _, from := range []string{server, share, "/usr/share/zoneinfo", "/usr/lib/locale/C.utf8"} {
		if err := copyTree(from, filepath.Join(root, from), "bitcode", "llvmjit*", "pgxs", "right", "posix"); err != nil {
			return err
		}
	}
	for _, writable := range []string{"data", "var/db/postgres/compute"} {
		if err := os.MkdirAll(filepath.Join(root, writable), 0o755); err != nil {
			return err
		}
	}
	if err := accounts(root); err != nil {
		return err
	}
	if err := complete(root); err != nil {
		return err
	}
	return s.build(ctx, dir, root, root)
}

// matches reports whether a file's name matches one of some patterns.
func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := filepath.Match(p, name)
		return err == nil && ok || strings.EqualFold(p, name)
	})
}
