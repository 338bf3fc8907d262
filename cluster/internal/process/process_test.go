package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/lifeline"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kubetest"
)

// The test binary also acts as the programs that are started.
const roleVariable = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(leak.Run(m))
	case "supervisor":
		playSupervisor(os.Args[1])
	case "child", "stubborn", "foreign":
		playChild(role)
	case "threads":
		playThreads()
	case "failing":
		fmt.Println("first line")
		fmt.Println("last line")
		os.Exit(3)
	}
}

// playChild runs until it is ended. A stubborn child ignores SIGTERM.
func playChild(role string) {
	if role == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	if role != "foreign" {
		lifeline.Watch()
	}
	fmt.Println("ready")
	time.Sleep(time.Hour) // until it is killed
}

// playSupervisor starts a child of every kind in dir, prints their identities
// and waits to be killed.
func playSupervisor(dir string) {
	group, err := NewGroup(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var ids []Identity
	for _, role := range []string{"child", "paused", "foreign"} {
		program := role
		if role == "paused" {
			program = "child"
		}
		p, err := group.Start(spec(role, program))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for len(Tail(LogFile(dir, role), 1)) == 0 {
			time.Sleep(time.Millisecond) // this is no test, but a process of one
		}
		if role == "paused" {
			err = p.Pause()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		ids = append(ids, p.id)
	}
	if err := json.NewEncoder(os.Stdout).Encode(ids); err != nil {
		os.Exit(1)
	}
	time.Sleep(time.Hour) // until it is killed
}

func spec(name, role string) Spec {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{Name: name, Path: program, Env: []string{roleVariable + "=" + role}, Foreign: role == "foreign"}
}

func newGroup(t *testing.T, dir string) *Group {
	t.Helper()
	group, err := NewGroup(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(group.Close)
	return group
}

func startReady(t *testing.T, group *Group, name, role string) *Process {
	t.Helper()
	p, err := group.Start(spec(name, role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		<-p.Done()
	})
	kubetest.Eventually(t, name+" says that it is ready", func() error {
		if len(Tail(LogFile(group.dir, name), 1)) == 0 {
			return errors.New("its log is empty")
		}
		return nil
	})
	return p
}

func TestStop(t *testing.T) {
	dir := t.TempDir()
	group := newGroup(t, dir)
	for _, c := range []struct {
		role   string
		paused bool
		grace  time.Duration
		status string
	}{
		{role: "child", grace: time.Minute, status: "signal: terminated"},
		{role: "child", paused: true, grace: time.Minute, status: "signal: terminated"},
		{role: "stubborn", grace: 50 * time.Millisecond, status: "signal: killed"},
	} {
		p := startReady(t, group, c.role, c.role)
		if _, err := os.Stat(recordFile(dir, c.role)); err != nil {
			t.Errorf("a running process has no record: %v", err)
		}
		if c.paused {
			if err := p.Pause(); err != nil {
				t.Fatal(err)
			}
			if !stopped(p.id.PID) {
				t.Error("a thread of a paused process runs")
			}
		}
		if err := p.Stop(t.Context(), c.grace); err != nil {
			t.Fatal(err)
		}
		var exit *ExitError
		if err := p.Err(); !errors.As(err, &exit) || exit.Status.Error() != c.status {
			t.Errorf("%+v: %v", c, err)
		}
		if _, err := os.Stat(recordFile(dir, c.role)); err == nil {
			t.Error("a process that has ended has a record")
		}
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("signal to a process that has ended: %v", err)
		}
	}
}

func TestExitErrorShowsTheLog(t *testing.T) {
	group := newGroup(t, t.TempDir())
	p, err := group.Start(spec("failing", "failing"))
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	text := p.Err().Error()
	for _, want := range []string{"failing has ended (exit status 3)", "first line", "last line", LogFile(group.dir, "failing")} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

func TestExitErrorNamesTheLimitOfTheSystem(t *testing.T) {
	const remedy = "sysctl -w fs.inotify.max_user_instances=1024"
	e := &ExitError{Name: "kube-proxy", LastLines: []string{`err="failed complete: too many open files"`}}
	if !strings.HasSuffix(e.Error(), remedy) {
		t.Errorf("%q does not end with %q", e, remedy)
	}
	e.LastLines = []string{"file not found"}
	if strings.Contains(e.Error(), remedy) {
		t.Errorf("%q names a limit that was not met", e)
	}
}

func TestStartFails(t *testing.T) {
	group := newGroup(t, t.TempDir())
	if _, err := group.Start(Spec{Name: "nothing", Path: "/does/not/exist"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start of a missing program: %v", err)
	}
	group.Close()
	if _, err := group.Start(spec("child", "child")); err == nil {
		t.Error("a closed group starts processes")
	}
}

// The children of a supervisor are gone soon after it was killed, in any state of
// the supervisor.
func TestChildrenEndWithTheSupervisor(t *testing.T) {
	dir := t.TempDir()
	supervisor, ids := startSupervisor(t, dir)
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = supervisor.Wait() // it was killed
	for i, id := range ids {
		if i == 2 && runtime.GOOS != "linux" {
			continue // only Sweep ends foreign programs on this system
		}
		kubetest.Eventually(t, "a child ends after its supervisor was killed", func() error {
			if id.Alive() {
				return fmt.Errorf("process %d runs", id.PID)
			}
			return nil
		})
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	// A stopped supervisor has not crashed. Its children cannot tell the difference, and
	// live.
	supervisor, ids := startSupervisor(t, dir)
	defer func() { _, _ = supervisor.Process.Kill(), supervisor.Wait() }() // the test is over
	if err := supervisor.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	swept, err := Sweep(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := "child foreign paused"; strings.Join(swept, " ") != want {
		t.Errorf("swept %v, want %s", swept, want)
	}
	for _, id := range ids {
		if id.Alive() {
			t.Errorf("process %d lives after Sweep", id.PID)
		}
	}
	if swept, err := Sweep(dir); err != nil || len(swept) != 0 {
		t.Errorf("second Sweep: %v %v", swept, err)
	}
}

// Another process may have the id of a recorded process by now.
func TestSweepSparesOthers(t *testing.T) {
	dir := t.TempDir()
	group := newGroup(t, t.TempDir())
	bystander := startReady(t, group, "bystander", "child")
	newGroup(t, dir) // makes the directories
	if err := writeRecord(dir, "old", Identity{PID: bystander.PID(), Started: "long ago"}); err != nil {
		t.Fatal(err)
	}
	if swept, err := Sweep(dir); err != nil || len(swept) != 0 {
		t.Errorf("Sweep: %v %v", swept, err)
	}
	if !bystander.id.Alive() {
		t.Error("Sweep ended a process by its id alone")
	}
	if err := (Identity{PID: bystander.PID(), Started: "long ago"}).Signal(syscall.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("signal to an earlier process of the same id: %v", err)
	}
}

func TestBrokenRecord(t *testing.T) {
	dir := t.TempDir()
	newGroup(t, dir)
	if err := os.WriteFile(recordFile(dir, "etcd"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Sweep(dir); err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("Sweep over a broken record: %v", err)
	}
}

// The lines that tell how a process ended are the cause of a crash, without the stacks of its
// goroutines, and are its own: an earlier run has written to the same log.
func TestLastWords(t *testing.T) {
	group, err := NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	stacks := `i=0; while [ $i -lt 2000 ]
do echo "goroutine $i [running]:"; echo 'main.f(...)'; printf '\t/a/b.go:1\n'; i=$((i+1)); done`
	for _, c := range []struct{ script, want string }{
		{"echo a; echo 'panic: no room'; echo; " + stacks + "; exit 2", "a|panic: no room"},
		{"echo b; echo 'fatal error: concurrent map writes'; echo; " + stacks + "; echo; echo 'rax 0x0'; exit 2",
			"b|fatal error: concurrent map writes"},
		{"echo 'F1128 22:00:00.000000 1 x.go:1] no port'; " + stacks + "; exit 2", "F1128 22:00:00.000000 1 x.go:1] no port"},
		{"echo 'error: wrong flag'; exit 1", "error: wrong flag"},
		{"exit 1", ""},
	} {
		p, err := group.Start(Spec{Name: "x", Path: "/bin/sh", Args: []string{"-c", c.script}})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		var exit *ExitError
		if !errors.As(p.Err(), &exit) || strings.Join(exit.LastLines, "|") != c.want {
			t.Errorf("%.60s: %q, want %q", c.script, exit.LastLines, c.want)
		}
	}
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if lines := Tail(file, 3); lines != nil {
		t.Errorf("tail of a missing file: %q", lines)
	}
	var content strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&content, "line %d\n", i)
	}
	for _, c := range []struct {
		content string
		want    string
	}{
		{"", ""},
		{"one", "one"},
		{"one\ntwo\n", "one|two"},
		{content.String(), "line 4997|line 4998|line 4999"},
	} {
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(Tail(file, 3), "|"); got != c.want {
			t.Errorf("tail of %d bytes: %q, want %q", len(c.content), got, c.want)
		}
	}
}

func TestAwait(t *testing.T) {
	group := newGroup(t, t.TempDir())
	p := startReady(t, group, "child", "child")
	ended := make(chan struct{})
	go p.id.Await(t.Context(), func() { close(ended) })
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("Await did not see the end")
	}
}

func startSupervisor(t *testing.T, dir string) (*exec.Cmd, []Identity) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, dir)
	cmd.Env = append(os.Environ(), roleVariable+"=supervisor")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []Identity
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ids)
	}
	if err != nil || len(ids) != 3 {
		t.Error(cmd.Process.Kill())
		t.Fatalf("supervisor: %v %v", ids, err)
	}
	for _, id := range ids {
		if !id.Alive() {
			t.Errorf("process %d does not live", id.PID)
		}
	}
	return cmd, ids
}
