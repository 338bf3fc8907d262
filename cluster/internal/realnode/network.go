package realnode

import (
	"errors"
	"fmt"
	"net/netip"
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

// Reserve chooses the network of the cluster in dir and holds it until Release
// or the end of the process. No other cluster and no route of this machine may
// use it. If services is set the network is the one with those: objects have
// addresses of it.
func Reserve(dir string, services netip.Prefix) (*Network, error) {
	used, err := networksInUse(dir)
	if err != nil {
		return nil, fmt.Errorf("choose network: %w", err)
	}
	err = errors.New("there is none")
	for number := range networks {
		n := newNetwork(number)
		if services.IsValid() && n.Services != services {
			continue
		}
		if err = n.claim(used); err == nil {
			return n, nil
		}
	}
	if services.IsValid() {
		return nil, fmt.Errorf("take the network with the cluster's Services (%v): %w", services, err)
	}
	return nil, fmt.Errorf("choose network: none of %d is free; the last: %w", networks, err)
}

func (n *Network) claim(used []netip.Prefix) error {
	for _, mine := range []netip.Prefix{n.Services, n.Pods, n.Link} {
		for _, u := range used {
			if u.Overlaps(mine) {
				return fmt.Errorf("%v overlaps with %v, which this machine has a route to", mine, u)
			}
		}
	}
	release, err := claimName(fmt.Sprintf("pintle-network-%d", n.number))
	if err != nil {
		return fmt.Errorf("another cluster uses %v: end that one first", n.Services)
	}
	n.release = release
	return nil
}
