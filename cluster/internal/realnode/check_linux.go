package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// programs are the foreign programs that a node needs, with the Debian package of each.
var programs = []struct{ name, from string }{
	{"containerd", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"ctr", "containerd"},
	{"nft", "nftables"},
	{"iptables", "iptables"}, // used by the CNI plugin portmap
}

var cniPlugins = []string{"ptp", "host-local", "portmap", "loopback"}

// Check reports, in one line, everything that this machine lacks for a real node.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("a real node cannot run here: it needs root")
	}
	var missing []string
	packages := map[string]bool{}
	lack := func(what, from string) {
		missing = append(missing, "no "+what)
		packages[from] = true
	}
	for _, p := range programs {
		if _, err := lookPath(p.name); err != nil {
			lack(p.name, p.from)
		}
	}
	if _, err := findRuntime(); err != nil {
		lack("runc or crun", "runc")
	}
	if _, err := cniDir(); err != nil {
		lack("CNI plugins ("+strings.Join(cniPlugins, ", ")+")", "containernetworking-plugins")
	}
	var install string
	if len(packages) > 0 {
		install = " (on Debian: apt-get install"
		for _, p := range []string{"containerd", "runc", "containernetworking-plugins", "nftables", "iptables"} {
			if packages[p] {
				install += " " + p
			}
		}
		install += ")"
	}
	if err := checkCgroups(); err != nil {
		missing = append(missing, err.Error())
	}
	if err := checkKernel(); err != nil {
		missing = append(missing, err.Error())
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("a real node cannot run here: %s%s", strings.Join(missing, "; "), install)
}

// lookPath finds a program in PATH, or in a directory for root that a user's PATH may
// lack.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s: %w", name, exec.ErrNotFound)
}

func findRuntime() (string, error) {
	path, err := lookPath("runc")
	if err != nil {
		path, err = lookPath("crun")
	}
	return path, err
}

// cniDir returns the directory of the CNI plugins that the node uses.
func cniDir() (string, error) {
	for _, dir := range append(filepath.SplitList(os.Getenv("CNI_PATH")), "/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni") {
		all := true
		for _, plugin := range cniPlugins {
			if _, err := os.Stat(filepath.Join(dir, plugin)); err != nil {
				all = false
			}
		}
		if all {
			return dir, nil
		}
	}
	return "", errors.New("there are no CNI plugins")
}

func checkCgroups() error {
	if unified() {
		if err := checkUnified(); err != nil {
			return err
		}
	} else {
		for _, c := range controllers {
			if _, err := os.Stat(filepath.Join(cgroupRoot, c, "cgroup.procs")); err != nil {
				return fmt.Errorf("no control groups for %s in %s", c, cgroupRoot)
			}
		}
	}
	trial := filepath.Join(tracker(), fmt.Sprintf("check-pintle-%d", os.Getpid()))
	if err := os.Mkdir(trial, 0o755); err != nil {
		return fmt.Errorf("control groups cannot be created here (%w)", err)
	}
	return os.Remove(trial)
}

// checkUnified checks that our control groups would have the controllers. In a container
// that was not made for it they would not: the outermost group that the container sees
// has processes, and a group with processes does not delegate controllers.
func checkUnified() error {
	read := func(name string) ([]string, error) {
		data, err := os.ReadFile(filepath.Join(cgroupRoot, name))
		return strings.Fields(string(data)), err
	}
	have, err := read("cgroup.controllers")
	if err != nil {
		return err
	}
	handedOn, err := read("cgroup.subtree_control")
	if err != nil {
		return err
	}
	processes, err := read("cgroup.procs")
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(cgroupRoot, "cgroup.type")) // the machine's own root has no such file
	stuck := err == nil && len(processes) > 0
	for _, c := range controllers {
		switch {
		case c == "cpuacct": // part of cpu
		case !slices.Contains(have, c):
			return fmt.Errorf("no controller %s in %s", c, cgroupRoot)
		case stuck && !slices.Contains(handedOn, c):
			return fmt.Errorf("this container's control groups cannot have the controller %s", c)
		}
	}
	return nil
}

// checkKernel tries the features of the kernel that a node needs: namespaces, links between them,
// nftables. It runs on a thread that ends with it.
func checkKernel() error {
	nft, _ := lookPath("nft")
	if nft == "" {
		return nil // this was already reported
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: no other goroutine can use the thread
		result <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("namespaces cannot be created here (%w)", err)
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
				return fmt.Errorf("nothing can be mounted here (%w)", err)
			}
			attrs := netlink.NewLinkAttrs()
			attrs.Name = "pn-check"
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0"}); err != nil {
				return fmt.Errorf("the kernel cannot create veth links (%w)", err)
			}
			cmd := exec.Command(nft, "add table ip check; add chain ip check c { type nat hook postrouting priority srcnat; }; add rule ip check c masquerade")
			if out, err := cmd.CombinedOutput(); err != nil {
				line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
				return fmt.Errorf("the kernel has no nftables with NAT (%w: %s)", err, line)
			}
			if err := os.WriteFile(forwarding, []byte("1"), 0); err != nil {
				return fmt.Errorf("network settings cannot be changed here (%w)", err)
			}
			return nil
		}()
	}()
	return <-result
}
