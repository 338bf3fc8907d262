package simulate

import (
	"errors"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// nodeIP is every simulated node's address.
const nodeIP = "127.0.0.1"

// podRange is where pods' addresses are from: nothing is behind them.
var podRange = netip.MustParsePrefix("10.244.0.0/16")

// addresses gives every pod an address that no other has.
type addresses struct {
	mu    sync.Mutex
	taken map[netip.Addr]types.UID
	last  netip.Addr
}

// take marks an address as a pod's.
func (a *addresses) take(ip string, pod types.UID) {
	addr, err := netip.ParseAddr(ip)
	if err != nil || !podRange.Contains(addr) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken == nil {
		a.taken = make(map[netip.Addr]types.UID)
	}
	a.taken[addr] = pod
}

// free gives an address back, if it is the pod's.
func (a *addresses) free(ip string, pod types.UID) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken[addr] == pod {
		delete(a.taken, addr)
	}
}

// give returns a free address. Addresses come around late, so that one that was
// freed is not soon another's.
func (a *addresses) give(pod types.UID) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken == nil {
		a.taken = make(map[netip.Addr]types.UID)
	}
	for range 1 << 16 {
		if a.last = a.last.Next(); !podRange.Contains(a.last) {
			a.last = podRange.Addr().Next()
		}
		if _, taken := a.taken[a.last]; !taken {
			a.taken[a.last] = pod
			return a.last.String(), nil
		}
	}
	return "", errors.New("no free pod address in " + podRange.String())
}
