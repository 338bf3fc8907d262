package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/internal/private"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

func TestNamed(t *testing.T) {
	t.Setenv(HomeVariable, "/somewhere")
	if dir, err := Named("a-1"); err != nil || dir != "/somewhere/clusters/a-1" {
		t.Errorf("Named: %s %v", dir, err)
	}
	for _, name := range []string{"", "..", "a/b", "A", "-a", strings.Repeat("a", 64)} {
		if dir, err := Named(name); err == nil {
			t.Errorf("the name %q was accepted: %s", name, dir)
		}
	}
}

// TestHomeOfAnother has root run with the HOME of another user. No cluster is where that user could replace it.
func TestHomeOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	home := t.TempDir()
	if err := os.Chown(home, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv(HomeVariable, "")
	if dir, err := Home(); err != nil || strings.HasPrefix(dir, home) || filepath.Base(dir) != ".pintle" {
		t.Errorf("%s, %v", dir, err)
	}
}

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	dir := Dir(t.TempDir())
	if err := dir.Claim(); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	if err := os.WriteFile(dir.Path("thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dir.Claim(); err == nil {
		t.Error("somebody else's directory was claimed")
	}
}

func TestLocks(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "cluster"))
	work, err := dir.Work(t.Context(), func() { t.Error("waiting for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Claim(); err != nil {
		t.Errorf("a cluster's directory: %v", err)
	}
	waited := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := dir.Work(ctx, func() { close(waited) }); err == nil {
		t.Error("two have the work lock")
	}
	<-waited
	work.Release()

	check := func(want bool) {
		t.Helper()
		if got, err := dir.Supervised(); err != nil || got != want {
			t.Errorf("supervised: %v %v, want %v", got, err, want)
		}
	}
	check(false)
	lock, err := dir.Supervise()
	if err != nil || lock == nil {
		t.Fatalf("supervise: %v %v", lock, err)
	}
	check(true)
	if second, err := dir.Supervise(); second != nil || err != nil {
		t.Errorf("second supervisor: %v %v", second, err)
	}
	if left, err := dir.Remove(lock); err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	check(false)
	lock.Release()
	if left, err := os.ReadDir(filepath.Dir(string(dir))); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestSocketPathIsShort(t *testing.T) {
	for _, temp := range []string{t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("long", 40))} {
		t.Setenv("TMPDIR", temp)
		for _, dir := range []Dir{"/home/me/.pintle/clusters/default", Dir("/" + strings.Repeat("long/", 40))} {
			path, err := dir.Socket()
			if err != nil {
				t.Fatal(err)
			}
			if len(path) >= 104 {
				t.Errorf("socket of %s: %s", dir, path)
			}
		}
	}
}

// shortTemp makes a directory that is short enough for sockets.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "s") //nolint:usetesting // the path of t.TempDir is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A command whose environment names another temporary directory finds the cluster that runs.
func TestSocketIsThatOfTheSupervisor(t *testing.T) {
	for name, record := range map[string]func(short, socket string) Record{
		"this version's":   func(short, _ string) Record { return Record{Short: short} },
		"an earlier one's": func(_, socket string) Record { return Record{Socket: socket} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := Dir(filepath.Join(t.TempDir(), strings.Repeat("long", 30)))
			t.Setenv("TMPDIR", shortTemp(t))
			short, err := dir.ChooseShort()
			if err != nil || short == "" {
				t.Fatal(short, err)
			}
			want, err := dir.Socket()
			if err != nil {
				t.Fatal(err)
			}
			r := record(short, want)
			r.Settings.Name = "x"
			if err := dir.SetRecord(r); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", shortTemp(t))
			if got, err := dir.Socket(); err != nil || got != want {
				t.Errorf("socket %s, %v, want %s", got, err, want)
			}
			if again, err := dir.ChooseShort(); err != nil || again == short {
				t.Errorf("the next supervisor's sockets are in %s, %v", again, err)
			}
		})
	}
	if short, err := Dir("/a").ChooseShort(); short != "" || err != nil {
		t.Errorf("a short directory: %q, %v", short, err)
	}
}

// No socket is opened and no key is written in a directory that another user has made.
func TestStrangersDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make directories of other users")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, name := range []string{fmt.Sprintf("pintle-%d", os.Getuid()), "cluster"} {
		dir := filepath.Join(temp, name)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
	}
	if path, err := Dir("/" + strings.Repeat("long/", 40)).Socket(); !errors.Is(err, private.ErrShared) {
		t.Errorf("a socket: %s, %v", path, err)
	}
	if err := Dir(filepath.Join(temp, "cluster")).Claim(); !errors.Is(err, private.ErrShared) {
		t.Errorf("a cluster: %v", err)
	}
}

func TestRecord(t *testing.T) {
	dir := Dir(t.TempDir())
	want := Record{Settings: Settings{Name: "x", Nodes: 3, APIServerArgs: []string{"--v=4"}}, APIServerPort: 20001}
	if err := dir.SetRecord(want); err != nil {
		t.Fatal(err)
	}
	if got, err := dir.Record(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("record: %+v %v, want %+v", got, err, want)
	}
}

// A program that looks for a supervisor keeps none from its start, and is not taken for one.
func TestLooksDoNotLock(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "cluster"))
	if err := dir.Claim(); err != nil {
		t.Fatal(err)
	}
	first, err := dir.Supervise()
	if err != nil {
		t.Fatal(err)
	}
	first.Release()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 500 {
				if is, err := dir.Supervised(); is || err != nil {
					t.Errorf("supervised, without a supervisor: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	all.Go(func() {
		for ctx.Err() == nil {
			if _, err := dir.Supervised(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 100 {
		lock, err := dir.Supervise()
		if err != nil || lock == nil {
			t.Errorf("supervisor %d: %v %v", i, lock, err)
		}
		lock.Release()
	}
	cancel()
	all.Wait()
}
