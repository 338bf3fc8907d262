// Package pgtest runs the real PostgreSQL of this machine for tests.
//
// PostgreSQL refuses to run as root. A test that runs as root gives its processes to the
// account postgres, or nobody.
package pgtest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/pintle-go/pintle/internal/testport"
)

// binVariable names the directory of PostgreSQL's programs, if it is not Debian's.
const binVariable = "PINTLE_POSTGRES_BIN"

// requireVariable, set to 1, requires PostgreSQL: a test fails in place of being skipped.
const requireVariable = "PINTLE_REQUIRE_POSTGRES"

// Bin returns the directory of PostgreSQL's programs, or skips the test on a machine that
// has none.
func Bin(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(binVariable); dir != "" {
		return dir
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		why := "no PostgreSQL here: apt-get install postgresql, or set " + binVariable
		if os.Getenv(requireVariable) == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1])
}

// Account returns the account that PostgreSQL's processes need, or nil if they can have the
// test's own.
func Account(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		who, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatalf("find an account for PostgreSQL: %v", err)
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(who.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Dir returns a directory that PostgreSQL can write. It is removed at the end of the test.
// Its path is short enough for sockets.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // the parents of t.TempDir are closed to other accounts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	if account := Account(t); account != nil {
		if err := os.Chown(dir, int(account.Uid), int(account.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// made are the data directories that initdb has made in this process, by its arguments: it
// takes longer than many a test.
var made sync.Map // string → func() (fstest.MapFS, error)

// Initdb makes a data directory as initdb with these arguments does, except that all of the
// same arguments have one system identifier.
func Initdb(t testing.TB, data string, args ...string) {
	t.Helper()
	bin, account := Bin(t), Account(t)
	of, _ := made.LoadOrStore(strings.Join(args, "\n"), sync.OnceValues(func() (fstest.MapFS, error) {
		return initdb(bin, account, args)
	}))
	files, err := of.(func() (fstest.MapFS, error))()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(data, files); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(data, 0o700); err != nil { //nolint:gosec // PostgreSQL asks for this mode
		t.Fatal(err)
	}
	if account == nil {
		return
	}
	err = filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(account.Uid), int(account.Gid))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func initdb(bin string, account *syscall.Credential, args []string) (fstest.MapFS, error) {
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if account != nil {
		if err := os.Chown(dir, int(account.Uid), int(account.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	cmd := exec.Command(filepath.Join(bin, "initdb"), append([]string{"-D", data}, args...)...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("run initdb: %w\n%s", err, said)
	}
	files := fstest.MapFS{}
	err = fs.WalkDir(os.DirFS(data), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		file := &fstest.MapFile{Mode: entry.Type() | 0o700}
		if !entry.IsDir() {
			file.Data, err = os.ReadFile(filepath.Join(data, path))
			file.Mode = 0o600
		}
		files[path] = file
		return err
	})
	return files, err
}

// Server is a running PostgreSQL with the superuser cloud_admin.
type Server struct {
	// Dir holds the data (data) and the socket.
	Dir  string
	Port int
	bin  string
}

// Start starts a PostgreSQL of its own on 127.0.0.1. The local socket is open to all; TCP
// asks for SCRAM passwords. Settings are lines of postgresql.conf. The server ends with the
// test.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := &Server{Dir: Dir(t), Port: testport.Port(t), bin: Bin(t)}
	Initdb(t, s.data(), "-U", "cloud_admin", "--auth-local=trust", "--auth-host=scram-sha-256",
		"--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C")
	lines := append([]string{
		"listen_addresses = '127.0.0.1'", "port = " + strconv.Itoa(s.Port), "fsync = off",
		"unix_socket_directories = '" + s.Dir + "'", "shared_buffers = 16MB",
	}, settings...)
	conf, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = conf.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := conf.Close(); err != nil {
		t.Fatal(err)
	}
	s.run(t, "pg_ctl", "-D", s.data(), "-l", filepath.Join(s.Dir, "log"), "-w", "start")
	t.Cleanup(func() { s.run(t, "pg_ctl", "-D", s.data(), "-m", "immediate", "-w", "stop") })
	return s
}

// Follow starts the server again as a replica. It replays no more than it has.
func (s *Server) Follow(t testing.TB) {
	t.Helper()
	s.run(t, "pg_ctl", "-D", s.data(), "-m", "fast", "-w", "stop")
	if err := os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o644); err != nil { //nolint:gosec // PostgreSQL reads it
		t.Fatal(err)
	}
	s.run(t, "pg_ctl", "-D", s.data(), "-l", filepath.Join(s.Dir, "log"), "-w", "start")
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// Local returns the connection string of a user on the local socket, without a password.
func (s *Server) Local(name, database string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", s.Dir, s.Port, name, database)
}

func (s *Server) run(t testing.TB, name string, args ...string) {
	t.Helper()
	// The context of the test has ended when the server is stopped.
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: Account(t)}
	// pg_ctl's server inherits what it writes to: a file, because a pipe would never close.
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
		t.Fatalf("%s: %v\n%s\n%s", name, err, said, log)
	}
}
