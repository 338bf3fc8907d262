// Package testport gives tests ports that no other test has.
package testport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// The ports of tests lie below the range that the kernel takes the ports of outgoing
// connections from (net.ipv4.ip_local_port_range), and below those of local clusters and of
// NodePort Services.
const (
	firstPort = 12000
	ports     = 8000
)

// Address returns an address of 127.0.0.1 with a port of its own, see [Port].
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(t)))
}

// Port returns a port of 127.0.0.1 for a server that the test starts, perhaps more than once. Until
// the test ends, no other call gets the port, in any process of this machine. A port of
// net.Listen(":0") that is closed again may be anybody's before the server has it.
func Port(t testing.TB) int {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "pintle-test-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatalf("make directory of ports: %v", err)
	}
	for range 1000 {
		port := firstPort + rand.IntN(ports)
		lock, err := reservePort(filepath.Join(dir, strconv.Itoa(port)), port)
		if err != nil {
			t.Fatal(err)
		}
		if lock != nil {
			t.Cleanup(func() { _ = lock.Close() }) // which unlocks the file
			return port
		}
	}
	t.Fatalf("all ports from %d to %d are taken", firstPort, firstPort+ports-1)
	return 0
}

// reservePort locks the file of a port. The file is nil if the port is taken.
func reservePort(file string, port int) (*os.File, error) {
	lock, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, fmt.Errorf("open file of port %d: %w", port, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, lock.Close()
	} else if err != nil {
		return nil, errors.Join(fmt.Errorf("lock file of port %d: %w", port, err), lock.Close())
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil { // another program has the port
		return nil, lock.Close()
	}
	return lock, l.Close()
}
