// Package s3test runs an S3 service in tests: versitygw, which is also the store of clusters
// whose object store is managed. It is built from its Go module.
package s3test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

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
	path, err := program.Install(context.Background(), program.ObjectStore) // a test that ends breaks off no build
	if err != nil {
		t.Fatal(err)
	}
	address := testport.Address(t)
	cmd := exec.Command(path, "--port="+address, "--quiet", "posix", root) //nolint:gosec,noctx // it was built here
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
