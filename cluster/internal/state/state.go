// Package state has the layout of a cluster's state directory, the locks in it, and the
// record of its cluster.
//
//	pintle.lock      held while up or down works on the directory
//	supervisor.lock  held by the supervisor for as long as it lives
//	cluster.json     the record: settings, ports, the directory of long sockets
//	kubeconfig       the administrator's kubeconfig
//	pki/ etcd/       survive a restart
//	logs/ processes/ logs and records of the components (package process)
//	authentication.yaml kubeconfigs/ volume-plugins/ node/ of the components
//
// Nothing else in the directory is the cluster's: [Dir.Remove] leaves it.
//
// Locks are the kernel's (flock): they end with the process that holds them, so no lock
// is ever stale.
package state

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"

	"github.com/pintle-go/pintle/cluster/internal/pki"
	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/internal/private"
)

// HomeVariable is the environment variable for the directory of clusters and built
// binaries, in place of the user's home directory.
const HomeVariable = "PINTLE_HOME"

// A Dir is the state directory of one cluster.
type Dir string

// Named returns the state directory of a named cluster.
func Named(name string) (Dir, error) {
	if !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`).MatchString(name) {
		return "", fmt.Errorf("cluster name %q: use lower-case letters, digits and '-'", name)
	}
	home, err := Home()
	if err != nil {
		return "", err
	}
	return Dir(filepath.Join(home, "clusters", name)), nil
}

// At returns the state directory at a path that the user chose.
func At(path string) (Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find state directory: %w", err)
	}
	return Dir(abs), nil
}

// Home returns the directory of all named clusters. It is below the home directory of the password database if
// HOME is another user's.
func Home() (string, error) {
	if home := os.Getenv(HomeVariable); home != "" {
		return filepath.Abs(home)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a place for clusters: %w (set %s)", err, HomeVariable)
	}
	home, _ = private.Own(home, "") // up says where a cluster is
	return filepath.Join(home, ".pintle"), nil
}

// Path returns the path of a file in the directory.
func (d Dir) Path(elements ...string) string {
	return filepath.Join(append([]string{string(d)}, elements...)...)
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (d Dir) Kubeconfig() string { return d.Path("kubeconfig") }

// Socket is the path of the supervisor's control socket. The path of a socket is limited
// to about a hundred bytes, so the socket of a long directory is in [Dir.Short].
func (d Dir) Socket() (string, error) {
	if path := d.Path("control.sock"); len(path) < maxSocket {
		return path, nil
	}
	short, err := d.Short()
	hash := sha256.Sum256([]byte(d))
	return filepath.Join(short, fmt.Sprintf("%x.sock", hash[:8])), err
}

// Short returns the directory of the sockets whose path would be too long. The supervisor has
// recorded it, because it depends on the environment. Before that it is [Short].
func (d Dir) Short() (string, error) {
	if r, err := d.Record(); err == nil {
		if r.Short != "" {
			return r.Short, nil
		}
		if short := filepath.Dir(r.Socket); r.Socket != "" && short != string(d) { // an earlier version's record
			return short, nil
		}
	}
	return Short()
}

// ChooseShort returns the directory that a supervisor records for [Dir.Short]. It is empty for one whose
// sockets have short paths.
func (d Dir) ChooseShort() (string, error) {
	if len(d.Path(node, "run", "containerd.sock")) < maxSocket { // the longest one
		return "", nil
	}
	return Short()
}

// maxSocket is the length from which on the path of a socket is too long.
const maxSocket = 100

// longTemp is the length of a temporary directory's path above which the path of a socket
// in it would be too long.
const longTemp = 60

// Short returns a directory with a short path, below the temporary one. It creates the
// directory. Every user can guess its name: Short returns an error if another user could
// change its content.
func Short() (string, error) {
	temp := os.TempDir()
	if len(temp) > longTemp {
		temp = "/tmp"
	}
	dir := filepath.Join(temp, fmt.Sprintf("pintle-%d", os.Getuid()))
	if err := private.Dir(dir, "set TMPDIR to a directory of your own, or shorten the cluster's path"); err != nil {
		return "", fmt.Errorf("find a place for sockets: %w", err)
	}
	return dir, nil
}

// Claim makes the directory, or checks that an existing one belongs to a cluster, because
// it will be written to, and perhaps removed.
func (d Dir) Claim() error {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read state directory: %w", err)
	}
	if len(entries) > 0 && !d.Exists() {
		_, err := d.Record()
		return fmt.Errorf("%s is not empty and belongs to no cluster: choose another --dir (%w)", d, err)
	}
	// The administrator's key will be in it.
	return private.Dir(string(d), "choose another --dir, or set "+HomeVariable+" to a directory of your own")
}

// Exists reports whether the directory belongs to a cluster: its record is there, or there are
// only locks yet.
func (d Dir) Exists() bool {
	_, err := d.Record()
	return err == nil || d.bare()
}

// A Record has the properties of a cluster that its data does not contain.
type Record struct {
	Settings Settings `json:"settings"`
	Socket   string   `json:"socket,omitempty"` // written by earlier versions, see [Dir.Short]
	Binary   string   `json:"binary"`           // of Kubernetes

	// Short is the directory of the sockets whose path would be too long, if there are any.
	Short string `json:"short,omitempty"`

	// Supervisor is the process that runs the cluster, or that ran it last.
	Supervisor process.Identity `json:"supervisor,omitzero"`

	// Owner is the process that the cluster belongs to, if any.
	Owner process.Identity `json:"owner,omitzero"`

	// Bootstrapped is the binary whose API server has made the objects that it makes at its
	// first start.
	Bootstrapped string `json:"bootstrapped,omitempty"`

	// HadNode tells that a real node has made its directory.
	HadNode bool `json:"hadNode,omitempty"`

	// The port is tried again at the next start, so that copies of the kubeconfig stay
	// valid.
	APIServerPort int `json:"apiServerPort,omitempty"`

	// The address ranges cannot change while objects have addresses of them.
	Services netip.Prefix `json:"services,omitzero"`
	Pods     netip.Prefix `json:"pods,omitzero"`
}

// Settings are the settings that the user chose.
type Settings struct {
	Name        string `json:"name"`
	Nodes       int    `json:"nodes,omitempty"`       // simulated nodes
	RealNode    bool   `json:"realNode,omitempty"`    // a kubelet on this machine
	Controllers bool   `json:"controllers,omitempty"` // controller-manager and scheduler
	Ephemeral   bool   `json:"ephemeral,omitempty"`   // remove the directory at the end

	// Flags for the components, after our own flags, which they override.
	APIServerArgs         []string `json:"apiServerArgs,omitempty"`
	ControllerManagerArgs []string `json:"controllerManagerArgs,omitempty"`
	SchedulerArgs         []string `json:"schedulerArgs,omitempty"`
}

// Record reads the record, which proves that the directory is a cluster's. It returns
// fs.ErrNotExist if there is none.
func (d Dir) Record() (Record, error) {
	data, err := os.ReadFile(d.Path(record))
	if err != nil {
		return Record{}, fmt.Errorf("read cluster record: %w", err)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("parse cluster record %s: %w", d.Path(record), err)
	}
	if r.Settings.Name == "" { // a file of another program
		return Record{}, fmt.Errorf("parse cluster record %s: it names no cluster", d.Path(record))
	}
	return r, nil
}

// SetRecord writes the record.
func (d Dir) SetRecord(r Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cluster record: %w", err)
	}
	return pki.WriteFile(d.Path(record), append(data, '\n'), 0o600)
}
