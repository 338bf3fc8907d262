package state

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes files in a cluster's directory. A name that ends with a slash is a directory.
func tree(t *testing.T, files map[string]string) Dir {
	t.Helper()
	dir := Dir(filepath.Join(t.TempDir(), "d"))
	for name, text := range files {
		path := dir.Path(name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// list returns the files below a directory.
func list(t *testing.T, dir Dir) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(string(dir), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			path, err = filepath.Rel(string(dir), path)
			files = append(files, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

// What is not a cluster's stays, and so does a directory that no record proves to be one's.
func TestRemove(t *testing.T) {
	const record = `{"settings": {"name": "x"}}`
	for name, test := range map[string]struct {
		have  map[string]string
		stays []string // besides a supervisor's lock that is there for the call
		left  string
		err   string
	}{
		"a cluster": {have: map[string]string{
			"cluster.json": record, "pintle.lock": "", "kubeconfig": "", "pki/ca.key": "", "etcd/member/wal": "",
			"logs/etcd.log": "", "processes/etcd.json": "", "kubeconfigs/a": "", "authentication.yaml": "",
			"volume-plugins/a": "", ".cluster.json.1234": "", ".kubeconfig.77": "",
		}},
		"a cluster with files of the user": {
			have: map[string]string{
				"cluster.json": record, "pintle.lock": "", "etcd/member/wal": "", "main.go": "", "src/y": "", ".cluster.json.old": "",
			},
			stays: []string{".cluster.json.old", "main.go", "src/y"}, left: ".cluster.json.old main.go src",
		},
		"a cluster that had a real node": {have: map[string]string{
			"cluster.json": `{"settings": {"name": "x"}, "hadNode": true}`, "node/containerd/a": "",
		}},
		"a cluster without one": {
			have:  map[string]string{"cluster.json": record, "node/package.json": ""},
			stays: []string{"node/package.json"}, left: "node",
		},
		"only locks": {have: map[string]string{"pintle.lock": ""}},
		"a lock and a file": {
			have: map[string]string{"pintle.lock": "", "file": ""}, stays: []string{"file", "pintle.lock"}, err: "nothing proves",
		},
		"a lock and a directory of a cluster's name": {
			have:  map[string]string{"pintle.lock": "", "logs/mine.log": ""},
			stays: []string{"logs/mine.log", "pintle.lock"}, err: "nothing proves",
		},
		"a damaged record": {
			have:  map[string]string{"pintle.lock": "", "cluster.json": "", "etcd/a": ""},
			stays: []string{"cluster.json", "etcd/a", "pintle.lock"}, err: "nothing proves",
		},
		"a record of another program": {
			have:  map[string]string{"pintle.lock": "", "cluster.json": `{"nodes": 3}`, "etcd/a": ""},
			stays: []string{"cluster.json", "etcd/a", "pintle.lock"}, err: "names no cluster",
		},
		"a file in the socket's place": {
			have:  map[string]string{"cluster.json": record, "control.sock": "text"},
			stays: []string{"cluster.json", "control.sock"}, err: "is no socket",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, test.have)
			lock, err := dir.Supervise()
			if err != nil || lock == nil {
				t.Fatal(lock, err)
			}
			defer lock.Release()
			left, err := dir.Remove(lock)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("Remove: %v, want %q", err, test.err)
			}
			if got := strings.Join(left, " "); got != test.left {
				t.Errorf("left %q, want %q", got, test.left)
			}
			want := test.stays
			if test.err != "" {
				want = append([]string{supervisorLock}, want...)
			}
			slices.Sort(want)
			if got := list(t, dir); !slices.Equal(got, want) {
				t.Errorf("there is %q, want %q", got, want)
			}
			_, err = os.Lstat(string(dir))
			if there := err == nil; there != (len(want) > 0) {
				t.Errorf("the directory is there: %t", there)
			}
		})
	}
}

// A cluster that was removed and made again is another one's.
func TestRemoveAnotherCluster(t *testing.T) {
	dir := tree(t, map[string]string{"cluster.json": `{"settings": {"name": "x"}}`, "etcd/a": ""})
	if _, err := dir.Remove(nil); err == nil {
		t.Error("it was removed without the supervisor's lock")
	}
	old, err := dir.Supervise()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Release()
	if err := os.Remove(dir.Path(supervisorLock)); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Remove(old); err == nil {
		t.Error("it was removed with a lock that is gone")
	}
	lock, err := dir.Supervise()
	if err != nil || lock == nil {
		t.Fatal(lock, err)
	}
	defer lock.Release()
	if _, err := dir.Remove(old); err == nil {
		t.Error("it was removed with the lock of an earlier one")
	}
	if got := list(t, dir); !slices.Contains(got, "etcd/a") {
		t.Errorf("there is only %q", got)
	}
}

// A cluster is refused, and not even closed to others, if only a lock says that there is one.
func TestClaimWithoutARecord(t *testing.T) {
	dir := tree(t, map[string]string{"pintle.lock": "", "file": ""})
	if err := os.Chmod(string(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if dir.Exists() {
		t.Error("it counts as a cluster's")
	}
	if err := dir.Claim(); err == nil {
		t.Error("it was claimed")
	}
	if running, err := dir.Supervised(); running || err != nil {
		t.Errorf("supervised: %t, %v", running, err)
	}
	info, err := os.Stat(string(dir))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got := list(t, dir); !slices.Equal(got, []string{"file", "pintle.lock"}) {
		t.Errorf("there is %q", got)
	}
}

// A record that is there is not written again by the next start.
func TestMark(t *testing.T) {
	dir := Dir(t.TempDir())
	for _, name := range []string{"first", "second"} {
		if err := dir.Mark(Record{Settings: Settings{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := dir.Record(); err != nil || r.Settings.Name != "first" {
		t.Errorf("record %+v, %v", r, err)
	}
}

func TestRemoveSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is gone
		if err := RemoveSocket(path); err != nil {
			t.Error(err)
		}
	}
}
