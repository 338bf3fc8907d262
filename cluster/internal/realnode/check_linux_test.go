package realnode

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	helperVariable = "PINTLE_TEST_HELPER"
	dirVariable    = "PINTLE_TEST_DIR"
)

// TestCheckHelper prints the result of Check, in the environment that the tests below set
// up.
func TestCheckHelper(*testing.T) {
	if os.Getenv(helperVariable) == "check" {
		fmt.Printf("said: %v\n", Check())
	}
}

func said(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Env = append(os.Environ(), helperVariable+"=check")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, rest, ok := strings.Cut(string(out), "said: ")
	line, _, _ := strings.Cut(rest, "\n")
	if !ok {
		t.Fatalf("it said nothing: %s", out)
	}
	return line
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func TestCheckWithoutRoot(t *testing.T) {
	requireRoot(t)
	// Only its user can read the test binary where it is.
	data, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "test")
	if err := os.WriteFile(program, data, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := program; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-test.run=^TestCheckHelper$")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if got, want := said(t, cmd), "a real node cannot run here: it needs root"; got != want {
		t.Errorf("it said %q, want %q", got, want)
	}
}

func TestCheckWithoutPrograms(t *testing.T) {
	requireRealNode(t)
	ctr, err := lookPath("ctr")
	if err != nil {
		t.Fatal(err)
	}
	nft, err := lookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	plugins, err := cniDir()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(
		"mount --bind /dev/null %s && mount --bind /dev/null %s && mount -t tmpfs none %s && exec %s -test.run='^TestCheckHelper$'",
		ctr, nft, plugins, os.Args[0],
	)
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script)
	want := "a real node cannot run here: no ctr; no nft; no CNI plugins (ptp, host-local, portmap, loopback)" +
		" (on Debian: apt-get install containerd containernetworking-plugins nftables)"
	if diff := cmp.Diff(want, said(t, cmd)); diff != "" {
		t.Errorf("it said (-want +got):\n%s", diff)
	}
}

func TestReserve(t *testing.T) {
	requireRealNode(t)
	one, err := Reserve("/one", netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := Reserve("/two", netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	if one.Services == two.Services {
		t.Errorf("two clusters have %v", one.Services)
	}
	// Services keep their addresses, or the cluster does not start.
	_, err = Reserve("/three", two.Services)
	want := fmt.Sprintf(
		"take the network with the cluster's Services (%v): another cluster uses %[1]v: end that cluster first",
		two.Services,
	)
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	two.Release()
	three, err := Reserve("/three", two.Services)
	if err != nil {
		t.Fatal(err)
	}
	three.Release()
	one.Release()

	if err := one.claim(
		[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	); err == nil ||
		!strings.Contains(err.Error(), "to which this machine has a route") {
		t.Errorf("a network under a route was taken: %v", err)
	}
}

func TestLoadWithoutNode(t *testing.T) {
	requireRealNode(t)
	archive := filepath.Join(t.TempDir(), "x.tar")
	if err := Load(t.Context(), t.TempDir(), archive); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no archive: %v", err)
	}
	if err := os.WriteFile(archive, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Load(t.Context(), t.TempDir(), archive); err == nil || !strings.Contains(err.Error(), errNoNode.Error()) {
		t.Errorf("no node: %v", err)
	}
}
