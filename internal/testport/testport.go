// Package testport gives tests ports that no other test has.
package testport

import (
	"math/rand/v2"
	"net"
	"strconv"
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
// the test ends, no other call gets the port, in any process of this machine: Port listens on the UDP
// port of that number. A port of net.Listen(":0") that is closed again may be anybody's before the
// server has it.
func Port(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(ports)
		if lock := reservePort(net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); lock != nil {
			t.Cleanup(func() { _ = lock.Close() })
			return port
		}
	}
	t.Fatalf("all ports from %d to %d are taken", firstPort, firstPort+ports-1)
	return 0
}

// reservePort returns what reserves the port of an address, or nil if the port is taken.
func reservePort(address string) net.PacketConn {
	lock, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil || l.Close() != nil { // another program has the port
		_ = lock.Close()
		return nil
	}
	return lock
}
