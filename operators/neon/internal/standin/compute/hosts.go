package compute

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/pintle-go/pintle/operators/neon/internal/spec"
)

// hostsVariable names a file for machines that cannot look up a cluster's names: an object in
// JSON, from host:port to another address.
const hostsVariable = "STANDIN_HOSTS"

// On a machine where several computes run outside of pods, addressVariable is the address of
// one of them, and socketsVariable the directory of its socket. Both belong to no real program.
const (
	addressVariable = "STANDIN_ADDRESS"
	socketsVariable = "STANDIN_SOCKETS"
)

// decode reads a configuration. The names in it become the addresses of the hosts' file.
func decode(text []byte) (spec.Config, error) {
	c, err := spec.Decode(text)
	if err != nil || os.Getenv(hostsVariable) == "" {
		return c, err
	}
	file, err := os.ReadFile(os.Getenv(hostsVariable))
	if err != nil {
		return c, fmt.Errorf("read hosts: %w", err)
	}
	var hosts map[string]string
	if err := json.Unmarshal(file, &hosts); err != nil {
		return c, fmt.Errorf("read hosts: %w", err)
	}
	for i, address := range c.Spec.Safekeepers {
		if to, ok := hosts[address]; ok {
			c.Spec.Safekeepers[i] = to
		}
	}
	for _, shard := range c.Spec.Pageservers.Shards {
		for i, p := range shard.Pageservers {
			u, err := url.Parse(p.URL)
			if err != nil {
				return c, fmt.Errorf("read address of pageserver: %w", err)
			}
			if to, ok := hosts[u.Host]; ok {
				u.Host = to
				shard.Pageservers[i].URL = u.String()
			}
		}
	}
	return c, nil
}

// trustSocket lets the standby walproposer in at the socket, outside of a pod. In a pod it comes
// from the loopback address, as upstream's pg_hba.conf allows.
func trustSocket(data string) error {
	if os.Getenv(addressVariable) == "" {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(data, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open the socket: %w", err)
	}
	_, err = f.WriteString("local replication cloud_admin trust\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("open the socket: %w", err)
	}
	return nil
}
