package kubetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pintle-go/pintle/internal/private"
)

// strangers makes the temporary directory one in which another user has made the
// directory that clusters and, without a home, the launcher are kept in.
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

// Keys and kubeconfigs are not written where another user reads and replaces them.
func TestPlaceOfAStranger(t *testing.T) {
	strangers(t)
	for _, options := range []Options{{}, {Private: true}} {
		if _, dir, err := options.place(); !errors.Is(err, private.ErrShared) {
			t.Errorf("%+v: %s, %v", options, dir, err)
		}
	}
}

// Without a home nothing is run that another user has put into its place.
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
	if path, err := build(t.Context()); !errors.Is(err, private.ErrShared) {
		t.Errorf("%s, %v", path, err)
	}
}
