package supervisor

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/controlplane"
)

// The ports are below those that systems use for outgoing connections and for NodePort
// Services. So between our check of a port and its use, only a listener that chooses the
// same number can take it.
const (
	firstPort = 20000
	lastPort  = 29999
)

// choosePorts finds free ports. The API server gets its earlier port if possible.
func choosePorts(apiServer int) (controlplane.Ports, error) {
	var ports controlplane.Ports
	if err := checkLoopback(); err != nil {
		return ports, err
	}
	taken := map[int]bool{}
	if free(apiServer) {
		ports.APIServer = apiServer
		taken[apiServer] = true
	}
	for _, port := range []*int{&ports.APIServer, &ports.Etcd, &ports.ControllerManager, &ports.Scheduler} {
		for tries := 0; *port == 0; tries++ {
			candidate := firstPort + rand.IntN(lastPort-firstPort+1)
			if !taken[candidate] && free(candidate) {
				*port = candidate
				taken[candidate] = true
			}
			if tries == 1000 {
				return ports, fmt.Errorf("find a free port on 127.0.0.1 from %d to %d: none", firstPort, lastPort)
			}
		}
	}
	return ports, nil
}

// checkLoopback returns an error if the programs would not reach each other. They can listen all the
// same, and would be waited for.
func checkLoopback() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		defer listener.Close()
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", listener.Addr().String(), 10*time.Second); err == nil {
			return conn.Close()
		}
	}
	return fmt.Errorf("use the loopback interface (is it up? Linux: ip link set lo up): %w", err)
}

func free(port int) bool {
	if port == 0 {
		return false
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	listener.Close()
	return true
}
