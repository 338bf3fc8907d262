package kubetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pintle-go/pintle/internal/private"
)

// strangers sets a temporary directory in which another user has made the directory that
// holds clusters and, without a home directory, the launcher.
func strangers(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make directories of other users")
	}
	temp := t.TempDir()
	base := filepath.Join(temp, fmt.Sprintf("pintle-kubetest-%d", os.Getuid()))
	err := errors.Join(os.Mkdir(base, 0o700), os.Chown(base, 12345, 12345), os.Chmod(temp, 0o777|os.ModeSticky))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
}

// Keys and kubeconfigs are not written to a directory where another user can read and
// replace them.
func TestPlaceOfAStranger(t *testing.T) {
	strangers(t)
	for _, options := range []Options{{}, {Private: true}} {
		if dir, err := options.place(os.Getpid()); !errors.Is(err, private.ErrShared) {
			t.Errorf("%+v: %s, %v", options, dir, err)
		}
	}
}

// Without a home directory, no program runs that another user has put into its place.
func TestLauncherOfAStranger(t *testing.T) {
	strangers(t)
	gopath, gocache := os.Getenv("GOPATH"), os.Getenv("GOCACHE")
	if gopath == "" {
		gopath = filepath.Join(os.Getenv("HOME"), "go")
	}
	if gocache == "" {
		gocache = t.TempDir()
	}
	for name, value := range map[string]string{"GOPATH": gopath, "GOCACHE": gocache, "HOME": "", "XDG_CACHE_HOME": ""} {
		t.Setenv(name, value)
	}
	if l, err := build(t.Context()); !errors.Is(err, private.ErrShared) {
		t.Errorf("%s, %v", l.path, err)
	}
}
