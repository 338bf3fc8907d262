package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/state"
)

// write writes a file in a cluster's directory.
func (c cluster) write(name, text string) {
	c.t.Helper()
	err := os.MkdirAll(filepath.Dir(c.dir.Path(name)), 0o700)
	if err == nil {
		err = os.WriteFile(c.dir.Path(name), []byte(text), 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c cluster) record(r state.Record) {
	c.t.Helper()
	if err := c.dir.SetRecord(r); err != nil {
		c.t.Fatal(err)
	}
}

// expect checks the names in the cluster's directory. If there are none, it must be gone.
func (c cluster) expect(want ...string) {
	c.t.Helper()
	entries, err := os.ReadDir(string(c.dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) || len(want) == 0 && err == nil {
		c.t.Errorf("there is %q, %v, want %q", names, err, want)
	}
}

// down --delete leaves the user's files, and a directory that is not a cluster's.
func TestDownDeletesOnlyTheCluster(t *testing.T) {
	c := cluster{t: t, dir: state.Dir(filepath.Join(t.TempDir(), "proj"))}
	c.record(state.Record{Settings: state.Settings{Name: "x"}})
	c.write("pintle.lock", "")
	c.write("etcd/member", "")
	c.write("main.go", "package main")
	c.write("src/y", "x")
	if out := c.run("down", "--delete"); !strings.Contains(out, "main.go, src") {
		t.Errorf("down does not say what stays:\n%s", out)
	}
	c.expect("main.go", "src")

	c.dir = state.Dir(filepath.Join(t.TempDir(), "mine"))
	c.write("file", "precious")
	c.write("pintle.lock", "")
	if out := c.run("down", "--delete"); !strings.Contains(out, "there is no cluster") {
		t.Errorf("down:\n%s", out)
	}
	c.expect("file", "pintle.lock")

	c.write("cluster.json", "")
	c.fail("nothing proves", "down", "--delete")
	c.fail("nothing proves", "status")
	c.fail("belongs to no cluster", "up")
	c.expect("cluster.json", "file", "pintle.lock")
}

// gone returns the identity of a process that has ended.
func gone(t *testing.T) process.Identity {
	t.Helper()
	o := newOwner(t)
	id, err := process.Identify(o.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	o.end()
	return id
}

// The remains of an ephemeral cluster are removed by the next up in its directory, and by
// the next one beside it, without files that others have made there.
func TestRemainsOfAnEphemeralCluster(t *testing.T) {
	ephemeral := state.Record{Settings: state.Settings{Name: "x", Ephemeral: true}}
	c := cluster{t: t, dir: state.Dir(filepath.Join(t.TempDir(), "c"))}
	remains := func() {
		c.record(ephemeral)
		c.write("pintle.lock", "")
		c.write("etcd/member", "")
	}
	remains()
	c.run("down")
	c.expect()

	remains()
	lock, err := claim(t.Context(), say, c.dir)
	if err == nil {
		lock, err = freshen(t.Context(), say, c.dir, lock, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	c.expect("pintle.lock")

	ephemeral.Owner = gone(t)
	remains()
	c.write("notes", "mine")
	if err := pruneOne(say, c.dir); err != nil {
		t.Fatal(err)
	}
	c.expect("notes")

	ephemeral.Owner, err = process.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	remains()
	if err := pruneOne(say, c.dir); err != nil {
		t.Fatal(err)
	}
	c.expect("cluster.json", "etcd", "notes", "pintle.lock")
}

// What is damaged beside a new cluster is reported, and the remains of others are removed.
func TestPruneBesideADamagedCluster(t *testing.T) {
	beside := filepath.Join(t.TempDir(), "with [brackets]")
	at := func(name string) cluster { return cluster{t: t, dir: state.Dir(filepath.Join(beside, name))} }
	damaged, old := at("a-damaged"), at("old")
	damaged.write("cluster.json", "")
	at("").write("file", "")
	old.record(state.Record{Settings: state.Settings{Name: "x", Ephemeral: true}, Owner: gone(t)})
	old.write("pintle.lock", "")
	var reports []string
	prune(func(format string, args ...any) { reports = append(reports, fmt.Sprintf(format, args...)) }, at("new").dir)
	if len(reports) != 1 || !strings.Contains(reports[0], string(damaged.dir)) {
		t.Errorf("reports %q", reports)
	}
	damaged.expect("cluster.json")
	old.expect()
}
