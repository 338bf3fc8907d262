package realnode

import (
	"errors"
	"fmt"
	"net/netip"
)

// A Network has the addresses of the cluster of one node. Clusters on one machine have
// different addresses.
type Network struct {
	number  int
	release func()

	Link     netip.Prefix // the host and the node
	Host     netip.Addr   // the address at which the node and its pods reach the API server
	Node     netip.Addr
	Pods     netip.Prefix // the node gets a part of it
	Services netip.Prefix
}

// Release lets another cluster use the network. The choice stays on record: Services keep
// their addresses over a restart.
func (n *Network) Release() { n.release() }

// networks is the number of networks to choose from.
const networks = 16

// newNetwork returns the network with a number. The first network has the ranges of a
// cluster without a real node.
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

// Reserve chooses the network of the cluster in dir and holds it until Release or the end
// of the process. No other cluster and no route of this machine may use it. If services
// is set, Reserve takes the network with that range, because existing objects have
// addresses of it.
func Reserve(dir string, services netip.Prefix) (*Network, error) {
	used, err := networksInUse(dir)
	if err != nil {
		return nil, fmt.Errorf("choose network: %w", err)
	}
	err = errors.New("no such network")
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
	return nil, fmt.Errorf("choose network: none of %d is free; the last error: %w", networks, err)
}

func (n *Network) claim(used []netip.Prefix) error {
	for _, mine := range []netip.Prefix{n.Services, n.Pods, n.Link} {
		for _, u := range used {
			if u.Overlaps(mine) {
				return fmt.Errorf("%v overlaps with %v, to which this machine has a route", mine, u)
			}
		}
	}
	release, err := claimName(fmt.Sprintf("pintle-network-%d", n.number))
	if err != nil {
		return fmt.Errorf("another cluster uses %v: end that cluster first", n.Services)
	}
	n.release = release
	return nil
}
