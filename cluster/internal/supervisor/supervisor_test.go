package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/build"
	"github.com/pintle-go/pintle/cluster/internal/controlplane"
	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

func testConfig(t *testing.T) Config {
	t.Helper()
	goMod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := build.Builder{GoMod: goMod, Output: os.Stderr}.Program(t.Context(), build.ControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	dir := state.Dir(filepath.Join(t.TempDir(), "cluster"))
	lock, err := dir.Work(t.Context(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lock.Release)
	return Config{
		Dir: dir, Binary: binary, Settings: state.Settings{Name: "test", Ephemeral: true},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// run runs the cluster. It calls ready with a client once the cluster is ready.
func run(t *testing.T, config Config, ready func(context.Context, *Client)) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	isReady := make(chan struct{})
	config.Ready = func(Status) { close(isReady) }
	result := make(chan error, 1)
	go func() { result <- Run(ctx, config) }()
	select {
	case <-isReady:
		ready(ctx, NewClient(config.Dir))
		cancel()
		return <-result
	case err := <-result:
		return err
	}
}

func TestActions(t *testing.T) {
	config := testConfig(t)
	err := run(t, config, func(ctx context.Context, client *Client) {
		if err := Run(ctx, config); !errors.Is(err, ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		for _, step := range []struct{ component, action, state string }{
			{"kube-apiserver", "pause", "paused"},
			{"kube-apiserver", "resume", "running"},
			{"kube-apiserver", "kill", "down"},
			{"kube-apiserver", "kill", "down"},
			{"etcd", "stop", "down"},
			{"etcd", "start", "running"},
			{"etcd", "start", "running"},
			{"kube-apiserver", "start", "running"},
			{"kube-apiserver", "restart", "running"},
		} {
			began := time.Now()
			if err := client.Act(ctx, step.component, step.action); err != nil {
				t.Errorf("%v: %v", step, err)
			}
			t.Logf("%s %s took %s", step.action, step.component, time.Since(began).Round(time.Millisecond))
			status, err := client.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range status.Components {
				if c.Name == step.component && (c.State != step.state || c.Restarts != 0) {
					t.Errorf("after %v: %+v", step, c)
				}
			}
		}
		for _, step := range []struct{ component, action, want string }{
			{"etcd", "stop", ""},
			{"kube-apiserver", "restart", "etcd is down"},
			{"etcd", "start", ""},
			{"kube-apiserver", "start", ""},
			{"etcd", "pause", ""},
			{"kube-apiserver", "restart", "etcd is paused"},
			{"etcd", "resume", ""},
			{"kube-apiserver", "restart", ""},
		} {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			err := client.Act(ctx, step.component, step.action)
			cancel()
			if (err != nil) != (step.want != "") || err != nil && !strings.Contains(err.Error(), step.want) {
				t.Errorf("%v: %v", step, err)
			}
		}
		if err := client.Compact(ctx); err != nil {
			t.Errorf("compact: %v", err)
		}
		for _, wrong := range [][2]string{{"kube-apiserver", "shutdown"}, {"kube-apiserver", "explode"}, {"nobody", "kill"}} {
			if err := client.Act(ctx, wrong[0], wrong[1]); err == nil {
				t.Errorf("%v was done", wrong)
			}
		}
	})
	if err != nil {
		t.Errorf("Run: %v", err)
	}
	if config.Dir.Exists() {
		t.Error("the directory of an ephemeral cluster is left")
	}
}

// A cluster that stops never says again that it is ready, and one whose owner has ended is
// about to stop.
func TestPhase(t *testing.T) {
	ended := 0
	s := &supervisor{phase: Starting, plane: &controlplane.Plane{}, end: func(error) { ended++ }}
	expect := func(want string) {
		t.Helper()
		if got := s.status().Phase; got != want {
			t.Errorf("phase %q, want %q", got, want)
		}
	}
	expect(Starting)
	if !s.setPhase(Ready) {
		t.Error("a cluster that starts does not get ready")
	}
	expect(Ready)
	s.Owner = process.Identity{PID: os.Getpid(), Started: "another time"}
	expect(Stopping)
	s.Keep = time.Minute
	expect(Ready)
	s.stop()
	if s.setPhase(Ready) || ended != 1 {
		t.Errorf("it is ready again, ended %d times", ended)
	}
	expect(Stopping)
}

// failingNode is a node that always fails.
type failingNode struct{ late bool }

var errNode = errors.New("the node is broken")

func (failingNode) Prepare(context.Context, *controlplane.Plane) error { return nil }

func (n failingNode) Run(ctx context.Context, _ Environment, ready func()) error {
	if n.late {
		ready()
		time.Sleep(100 * time.Millisecond) // it fails a while later
	}
	return errNode
}

func TestNodeFails(t *testing.T) {
	for _, late := range []bool{false, true} {
		config := testConfig(t)
		config.Nodes = []Node{failingNode{late: late}}
		wasReady := false
		config.Ready = func(Status) { wasReady = true }
		if err := Run(t.Context(), config); !errors.Is(err, errNode) {
			t.Errorf("late %v: Run: %v", late, err)
		}
		if wasReady != late {
			t.Errorf("late %v: the cluster was said to be ready: %v", late, wasReady)
		}
	}
}

func TestPortTaken(t *testing.T) {
	config := testConfig(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	if ports, err := choosePorts(number); err != nil || ports.APIServer == number {
		t.Errorf("ports %+v, %v: %d is in use", ports, err, number)
	}

	// Another program takes the chosen port first.
	config.Settings.APIServerArgs = []string{"--secure-port=" + port}
	err = Run(t.Context(), config)
	if !errors.Is(err, errPortTaken) || !strings.Contains(err.Error(), port) {
		t.Errorf("Run with a port in use: %v", err)
	}
}
