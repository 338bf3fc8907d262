package simulate

import (
	"errors"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// nodeIP is the address of every simulated node.
const nodeIP = "127.0.0.1"

// podRange is the range of the pods' addresses. No network is behind them.
var podRange = netip.MustParsePrefix("10.244.0.0/16")

// addresses gives every pod a unique address.
type addresses struct {
	mu    sync.Mutex
	taken map[netip.Addr]types.UID
	last  netip.Addr
}

// take marks an address as used by a pod.
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

// free releases an address if it belongs to the pod.
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

// give returns a free address. A released address is reused late, so that it does not
// soon belong to another pod.
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
