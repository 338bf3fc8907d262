// Package s3test runs an S3 service in tests: versitygw, which is also the store of clusters
// whose object store is managed. It is built from its Go module.
package s3test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/pintle-go/pintle/internal/private"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kubetest"
)

// Module is the program's package and version.
const Module = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// The credentials of the service's only user.
const (
	AccessKey = "access"
	SecretKey = "secret-of-the-tests" // #nosec G101 -- for tests
)

// Start starts a service with one bucket, and returns its URL and the directory of the bucket.
// It ends with the test.
func Start(t testing.TB, bucket string) (url, dir string) {
	t.Helper()
	root := t.TempDir()
	dir = filepath.Join(root, bucket)
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	address := testport.Address(t)
	cmd := exec.Command(program(t), "--port="+address, "--quiet", "posix", root) //nolint:gosec,noctx // it was built here
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	})
	kubetest.Eventually(t, "the object store answers", func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	return "http://" + address, dir
}

// built is the program of all tests of a process.
var built struct {
	sync.Once
	path string
	err  error
}

func program(t testing.TB) string {
	t.Helper()
	built.Do(func() { built.path, built.err = build(context.Background()) }) // other tests wait for it
	if built.err != nil {
		t.Fatalf("build %s: %v", Module, built.err)
	}
	return built.path
}

// build builds the program in this user's cache. The Go command links it again only if it is
// not there.
func build(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "pintle", "s3test")
	// A user who can write to the directory could have this user run any program.
	if err := private.Dir(dir); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // and releases the lock
	// Another process may be starting the program.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("wait for another build: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", Module)
	cmd.Dir = dir // outside of any module
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return filepath.Join(dir, "versitygw"), nil
}
