package realnode

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const linkPrefix = "pn-"

// linkName is the host's end of the link to the node.
func linkName(id string) string { return linkPrefix + id }

// networksInUse lists the networks that this machine has routes to, except routes through
// the cluster's own link.
func networksInUse(dir string) ([]netip.Prefix, error) {
	own := -1
	if link, err := netlink.LinkByName(linkName(clusterID(dir))); err == nil {
		own = link.Attrs().Index
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var used []netip.Prefix
	for _, r := range routes {
		if r.Dst == nil || r.LinkIndex == own {
			continue
		}
		addr, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		bits, _ := r.Dst.Mask.Size()
		if ok && bits > 0 { // the default route reserves no network
			used = append(used, netip.PrefixFrom(addr, bits))
		}
	}
	return used, nil
}

// claimName claims a name that no other process of this machine (or of this network
// namespace, whose routes these are) may have, until release is called or the process
// ends.
func claimName(name string) (release func(), err error) {
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		return nil, err
	}
	return func() { l.Close() }, nil
}

// connect makes the link between the host and the node, and the host's routes into it.
// The node's network namespace is that of thread tid.
func connect(id string, n *Network, tid int) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", tid))
	if err != nil {
		return fmt.Errorf("open namespace: %w", err)
	}
	defer namespace.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = linkName(id)
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(namespace.Fd())}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("make link %s: %w", attrs.Name, err)
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(n.Host, n.Link.Bits()))}); err != nil {
		return fmt.Errorf("give %s its address: %w", attrs.Name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", attrs.Name, err)
	}
	return addRoute(id, n, n.Services)
}

// addRoute routes the host's packets for dst to the node.
func addRoute(id string, n *Network, dst netip.Prefix) error {
	link, err := netlink.LinkByName(linkName(id))
	if err != nil {
		return fmt.Errorf("find link %s: %w", linkName(id), err)
	}
	err = netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(dst), Gw: n.Node.AsSlice()})
	if err != nil {
		return fmt.Errorf("add route to %v: %w", dst, err)
	}
	return nil
}

// configureInside sets up the node's side. It runs on the node's thread, after
// connect.
func configureInside(n *Network) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("find link to the host: %w", err)
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(n.Node, n.Link.Bits()))}); err != nil {
		return fmt.Errorf("give the node its address: %w", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set link to the host up: %w", err)
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: n.Host.AsSlice()}); err != nil {
		return fmt.Errorf("add default route: %w", err)
	}
	if err := os.WriteFile(forwarding, []byte("1"), 0); err != nil {
		return fmt.Errorf("forward to pods: %w", err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// disconnect removes everything that connect made. It is no error if nothing exists.
func disconnect(id string) error {
	link, err := netlink.LinkByName(linkName(id))
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	// The link disappears together with the node's namespace.
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove link %s: %w", linkName(id), err)
	}
	return nil
}

// openWorld lets pods reach every network that the host reaches, under the host's
// address.
func openWorld(id string, n *Network) error {
	rules := fmt.Sprintf(`table ip pintle-%s {
	chain postrouting {
		type nat hook postrouting priority srcnat
		oifname != "%s" ip saddr { %v, %v } masquerade
	}
}
`, id, linkName(id), n.Link.Masked(), n.Pods)
	return nft(rules)
}

// closeWorld undoes openWorld. Adding an existing table changes nothing, so the deletion
// always finds a table.
func closeWorld(id string) error {
	return nft(fmt.Sprintf("add table ip pintle-%s\ndelete table ip pintle-%[1]s\n", id))
}

func nft(rules string) error {
	path, err := lookPath("nft")
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run nft: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
