package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/pintle-go/pintle/cluster/internal/pki"
)

// A Network is the addresses of one node's cluster. Clusters of one machine have
// different ones.
type Network struct {
	number  int
	release func()

	Link     netip.Prefix // the host and the node
	Host     netip.Addr   // where the node and its pods reach the API server
	Node     netip.Addr
	Pods     netip.Prefix // of which the node gets a part
	Services netip.Prefix
}

// Release lets another cluster have the network. What was chosen stays on
// record: Services keep their addresses over a restart.
func (n *Network) Release() { n.release() }

// networks is how many there are to choose from.
const networks = 16

// newNetwork returns one of them. The first has the ranges of a cluster without
// a real node.
func newNetwork(number int) *Network {
	addr := func(second int, last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(second), 0, last}) }
	return &Network{
		number:   number,
		Services: netip.PrefixFrom(addr(96+number, 0), 16),
		Link:     netip.PrefixFrom(addr(112+number, 0), 30),
		Host:     addr(112+number, 1),
		Node:     addr(112+number, 2),
		Pods:     netip.PrefixFrom(addr(244-4*number, 0), 14),
	}
}

func (n *Network) overlaps(used []netip.Prefix) (netip.Prefix, bool) {
	for _, u := range used {
		if u.Overlaps(n.Services) || u.Overlaps(n.Pods) || u.Overlaps(n.Link) {
			return u, true
		}
	}
	return netip.Prefix{}, false
}

// Reserve chooses the network of the cluster in dir, the same as the last time
// if there was one, and holds it until Release or the end of the process. No
// other cluster and no route of this machine may use it.
func Reserve(dir string) (*Network, error) {
	used, err := networksInUse(dir)
	if err != nil {
		return nil, fmt.Errorf("choose network: %w", err)
	}
	record := filepath.Join(nodeDir(dir), "network.json")
	number, err := readNumber(record)
	if err == nil {
		n := newNetwork(number)
		if u, ok := n.overlaps(used); ok {
			return nil, fmt.Errorf("take the cluster's network again: %v, which this machine now has a route to, overlaps with %v, %v or %v: remove that route or the cluster", u, n.Services, n.Pods, n.Link)
		}
		if n.release, err = claimName(fmt.Sprintf("pintle-network-%d", number)); err != nil {
			return nil, fmt.Errorf("take the cluster's network again: another cluster uses %v: end that one first (%w)", n.Services, err)
		}
		return n, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read network: %w", err)
	}
	for number := range networks {
		n := newNetwork(number)
		if _, ok := n.overlaps(used); ok {
			continue
		}
		if n.release, err = claimName(fmt.Sprintf("pintle-network-%d", number)); err != nil {
			continue
		}
		data, err := json.Marshal(number)
		if err == nil {
			err = pki.WriteFile(record, data, 0o600)
		}
		if err != nil {
			n.Release()
			return nil, fmt.Errorf("record network: %w", err)
		}
		return n, nil
	}
	return nil, fmt.Errorf("choose network: other clusters and routes of this machine use all of %d", networks)
}

func readNumber(record string) (int, error) {
	data, err := os.ReadFile(record)
	if err != nil {
		return 0, err
	}
	var number int
	if err := json.Unmarshal(data, &number); err != nil {
		return 0, fmt.Errorf("parse %s: %w", record, err)
	}
	if number < 0 || number >= networks {
		return 0, fmt.Errorf("parse %s: there is no network %d", record, number)
	}
	return number, nil
}
