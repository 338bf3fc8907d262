package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/internal/private"
)

// keepUnused is the time without use after which a cached file is removed.
const keepUnused = 30 * 24 * time.Hour

// A place is the place of a file that is built from this module's sources.
type place struct {
	source source
	cache  string // the cache directory
	path   string // the file in it
}

// find returns the place of a file that is built from the sources in these directories.
// In its name, relative to the cache directory, a * stands for the sources' key.
func find(ctx context.Context, name string, dirs ...string) (place, error) {
	src, err := findSource(ctx)
	if err != nil {
		return place{}, err
	}
	key, err := src.key(runtime.Version(), dirs...)
	if err != nil {
		return place{}, err
	}
	cache, err := cacheDir()
	if err != nil {
		return place{}, err
	}
	return place{source: src, cache: cache, path: filepath.Join(cache, strings.Replace(name, "*", key, 1))}, nil
}

func cacheDir() (string, error) {
	var dir string
	if os.Getenv(state.HomeVariable) == "" {
		if cache, err := os.UserCacheDir(); err == nil {
			own, why := private.Own(cache, ".cache")
			if why != "" {
				fmt.Fprintln(os.Stderr, why)
			}
			dir = filepath.Join(own, "pintle", "bin")
		}
	}
	if dir == "" {
		home, err := state.Home()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, "bin")
	}
	// A user who can write to the directory could have this user run any program.
	return dir, private.Dir(dir, "set "+state.HomeVariable+" to a directory of your own")
}

// used reports whether the file exists, and marks it as used.
func (p place) used() bool {
	now := time.Now()
	return os.Chtimes(p.path, now, now) == nil
}

// removeUnused removes files that were not used for a long time. A program that a cluster runs
// is locked (package process): the cluster may start it again.
func removeUnused(cache string) {
	patterns := []string{"image-*", "building-*"}
	for _, program := range Programs {
		patterns = append(patterns, "*/"+string(program))
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(cache, pattern))
		if err != nil {
			return
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil || time.Since(info.ModTime()) <= keepUnused {
				continue
			}
			f, err := os.Open(file)
			if err != nil {
				continue
			}
			if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				_ = os.RemoveAll(file) // if it stays, it only takes room
			}
			f.Close()
		}
	}
}
