// Package standins runs the pods of the Neon operator on simulated nodes, with the stand-ins for
// Neon's programs and the PostgreSQL of this machine: for make run, and for tests of all that
// the operator does. The stand-ins are no part of Neon.
package standins

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/podrun"
)

// Package is the stand-ins' program.
const Package = "github.com/pintle-go/pintle/operators/neon/standin"

// Selector selects the pods of the Neon operator.
const Selector = "app.kubernetes.io/name=neon"

// binVariable names the directory of PostgreSQL's programs, if it is not Debian's.
const binVariable = "PINTLE_POSTGRES_BIN"

// ErrNoPostgres is the error of [Find] on a machine where the stand-ins cannot run.
var ErrNoPostgres = errors.New("no PostgreSQL here: apt-get install postgresql, or set " + binVariable)

// Postgres is the PostgreSQL of this machine.
type Postgres struct {
	// Bin is the directory of its programs.
	Bin string
	// Account is the account that its processes need, nil for that of this process: PostgreSQL
	// refuses to run as root.
	Account *syscall.Credential
}

// Find finds the PostgreSQL of this machine.
func Find() (Postgres, error) { return find("/usr/lib/postgresql/*/bin/initdb") }

// find finds a PostgreSQL by a pattern of paths.
func find(pattern string) (Postgres, error) {
	p := Postgres{Bin: os.Getenv(binVariable)}
	if runtime.GOOS != "linux" {
		return p, errors.New("pods get addresses of their own in 127.0.0.0/8 only on Linux")
	}
	if p.Bin == "" {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return p, err
		}
		if len(found) == 0 {
			return p, ErrNoPostgres
		}
		slices.Sort(found)
		p.Bin = filepath.Dir(found[len(found)-1])
	}
	if os.Geteuid() != 0 {
		return p, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		who, err = user.Lookup("nobody")
	}
	if err != nil {
		return p, fmt.Errorf("find an account for PostgreSQL: %w", err)
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	if err != nil {
		return p, err
	}
	gid, err := strconv.ParseUint(who.Gid, 10, 32)
	p.Account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return p, err
}

// Programs are the paths of the programs that pods run.
type Programs struct {
	// StandIn is that of [Package], and Store that of the object store.
	StandIn, Store string
}

// Share lets other accounts enter a directory, so that it can be that of a [podrun.Runner].
func Share(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the account of the pods enters it
		return fmt.Errorf("open directory: %w", err)
	}
	return nil
}

// New returns a runner of all pods of the Neon operator in a namespace, with files in a
// shared directory. line is called with the output of each pod; it may be nil.
func New(
	client *kube.Client, namespace, dir string, postgres Postgres, from Programs, line func(string) func(string),
) (*podrun.Runner, error) {
	// The account of the pods cannot read a build cache.
	programs := filepath.Join(dir, "programs")
	standIn, store := filepath.Join(programs, "neon-standin"), filepath.Join(programs, "versitygw")
	for to, from := range map[string]string{standIn: from.StandIn, store: from.Store} {
		if err := copyProgram(from, to); err != nil {
			return nil, err
		}
	}
	// The versions that Neon's images have, all of them the one that is installed.
	for _, version := range []string{"v14", "v15", "v16", "v17"} {
		if err := os.Symlink(filepath.Dir(postgres.Bin), filepath.Join(programs, version)); err != nil {
			return nil, fmt.Errorf("lay out programs: %w", err)
		}
	}
	// A script starts the storage controller.
	if err := os.Symlink(filepath.Base(standIn), filepath.Join(programs, "storage_controller")); err != nil {
		return nil, fmt.Errorf("lay out programs: %w", err)
	}
	path := "PATH=" + programs + string(os.PathListSeparator) + os.Getenv("PATH")
	hosts := podrun.HostsFile(dir)
	return podrun.New(podrun.Options{
		Client: client, Namespace: namespace, Labels: Selector, Dir: dir, Account: postgres.Account, Line: line,
		Command: func(c *corev1.Container) (string, []string, error) {
			switch {
			case len(c.Command) == 0:
				return store, nil, nil
			case c.Command[0] == "/bin/sh":
				return c.Command[0], nil, nil
			}
			return standIn, c.Command[:1], nil
		},
		Replace: func(address, tmp string) map[string]string {
			return map[string]string{
				// Pods have loopback addresses of their own.
				"--listen-http=127.0.0.1:": "--listen-http=" + address + ":", "listen_http_addr='127.0.0.1:": "listen_http_addr='" + address + ":",
				"0.0.0.0": address, "--port=:": "--port=" + address + ":", "listen_addresses='*'": "listen_addresses=" + address,
				"/usr/local/bin/": postgres.Bin + "/", "/usr/local/v17/bin/": postgres.Bin + "/", "/usr/local/": programs + "/",
				"cloud_admin@localhost:55433/postgres": "cloud_admin@/postgres?port=55433&host=" + tmp,
			}
		},
		Env: func(address, tmp string) []string {
			return []string{"STANDIN_HOSTS=" + hosts, "STANDIN_ADDRESS=" + address, "STANDIN_SOCKETS=" + tmp, path}
		},
	})
}

func copyProgram(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // the account of the pods enters it
		return fmt.Errorf("copy program: %w", err)
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755) //nolint:gosec // and runs it
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close() // the copy has failed already
		return fmt.Errorf("copy program: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	return nil
}
