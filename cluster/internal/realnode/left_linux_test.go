package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

// A scene is the state of this machine that a node must not change for good.
type scene struct {
	Links      []string
	Routes     []string
	Mounts     []string
	Rules      string
	Forwarding string
	Dirs       []string // the node's paths that exist
}

func lookAround(t *testing.T) scene {
	t.Helper()
	var s scene
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		s.Links = append(s.Links, l.Attrs().Name)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		s.Routes = append(s.Routes, r.String())
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		s.Mounts = append(s.Mounts, strings.Fields(line)[4])
	}
	slices.Sort(s.Mounts) // the kernel lists them in any order
	nft, err := lookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := exec.Command(nft, "list", "tables").CombinedOutput()
	if err != nil {
		t.Fatalf("nft: %v: %s", err, rules)
	}
	s.Rules = string(rules)
	state, err := os.ReadFile(forwarding)
	if err != nil {
		t.Fatal(err)
	}
	s.Forwarding = string(state)
	for path := range shadows {
		if _, err := os.Stat(path); err == nil {
			s.Dirs = append(s.Dirs, path)
		}
	}
	return s
}

// nothingLeft checks that nothing of the node of the cluster in dir is left.
func nothingLeft(t *testing.T, dir string, before scene) {
	t.Helper()
	// Another cluster of the test may still run.
	after := lookAround(t)
	id := clusterID(dir)
	for _, s := range []string{fmt.Sprint(after.Links), after.Rules} {
		if strings.Contains(s, id) {
			t.Errorf("%s is left in %s", id, s)
		}
	}
	for _, m := range after.Mounts {
		if strings.HasPrefix(m, dir) {
			t.Errorf("mount %s is left", m)
		}
	}
	if !othersLive(t) {
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the machine was changed (-before +after):\n%s", diff)
		}
	}
	groups, err := filepath.Glob(cgroupRoot + "/*/pintle-" + id)
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) > 0 {
		t.Errorf("control groups are left: %v", groups)
	}
	for _, pid := range processesWith(t, id, dir) {
		t.Errorf("process %s is left", pid)
	}
	for _, name := range leftovers {
		if _, err := os.Stat(filepath.Join(nodeDir(dir), name)); err == nil {
			t.Errorf("%s is left", filepath.Join(nodeDir(dir), name))
		}
	}
}

// othersLive reports whether another cluster of the test has a node.
func othersLive(t *testing.T) bool {
	t.Helper()
	groups, err := filepath.Glob(filepath.Join(tracker(), cgroupPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(groups) > 0
}

// processesWith lists the processes that are in a control group of the node, or have its
// directory in their arguments.
func processesWith(t *testing.T, id, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		groups, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup"))
		if err != nil {
			continue // not a process, or it is gone
		}
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		line := strings.ReplaceAll(string(args), "\x00", " ")
		if line == "" {
			continue // it has ended, and its parent has not waited for it
		}
		if strings.Contains(string(groups), "pintle-"+id) || strings.Contains(line, dir) {
			found = append(found, e.Name()+" ("+line+")")
		}
	}
	return found
}
