package realnode

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// outside makes a network beyond the host, in a namespace that ends with the test, and in
// it a server that answers with each client's address.
func outside(t *testing.T) (url string, host netip.Addr) {
	t.Helper()
	host = netip.MustParseAddr("198.18.77.1")
	there := netip.MustParseAddr("198.18.77.2")
	type made struct {
		tid      int
		listener net.Listener
		err      error
	}
	ready := make(chan made)
	linked := make(chan struct{})
	go func() {
		runtime.LockOSThread() // not unlocked: the namespace ends with the thread
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			ready <- made{err: err}
			return
		}
		ready <- made{tid: unix.Gettid()}
		<-linked
		listener, err := func() (net.Listener, error) {
			link, err := netlink.LinkByName("outside1")
			if err != nil {
				return nil, err
			}
			if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(there, 30))}); err != nil {
				return nil, err
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return nil, err
			}
			return net.Listen("tcp", there.String()+":80")
		}()
		ready <- made{listener: listener, err: err}
	}()
	m := <-ready
	if m.err != nil {
		t.Fatal(m.err)
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", m.tid))
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "outside0"
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: "outside1", PeerNamespace: netlink.NsFd(namespace.Fd())}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netlink.LinkDel(link); err != nil {
			t.Error(err)
		}
	})
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(host, 30))}); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	close(linked)
	if m = <-ready; m.err != nil {
		t.Fatal(m.err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, netip.MustParseAddrPort(r.RemoteAddr).Addr())
	})}
	go func() {
		if err := server.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { server.Close() })
	return "http://" + there.String() + "/", host
}
