package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

func TestNextStep(t *testing.T) {
	for _, test := range []struct {
		locked bool
		phase  string
		answer error
		want   step
	}{
		{false, "", nil, begin},
		{true, supervisor.Ready, nil, use},
		{true, supervisor.Starting, nil, wait},
		{true, supervisor.Stopping, nil, wait},
		{true, "", errors.New("no such file"), wait},
		{true, "", fmt.Errorf("ask: %w", context.DeadlineExceeded), giveUp},
	} {
		if got := next(test.locked, test.phase, test.answer); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestCheckOwner(t *testing.T) {
	none, a, b := process.Identity{}, process.Identity{PID: 1, Started: "x"}, process.Identity{PID: 1, Started: "y"}
	for _, test := range []struct {
		asked, is process.Identity
		want      string
	}{
		{none, none, ""}, {none, a, ""}, {a, a, ""}, {a, none, "without an owner"}, {a, b, "with process 1 as its owner"},
	} {
		err := checkOwner(test.asked, test.is)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// A played supervisor holds the lock of a cluster and answers on its socket.
type played struct {
	dir state.Dir

	mu    sync.Mutex
	lock  *state.Lock
	left  []string // the phases of the next answers; the last one stays
	stops int
	told  func() // called by a stop
}

// play takes the lock. The supervisor answers from listen on.
func play(t *testing.T, phases ...string) *played {
	t.Helper()
	p := &played{dir: state.Dir(filepath.Join(t.TempDir(), "c")), left: phases}
	work, err := p.dir.Work(t.Context(), func() {})
	if err == nil {
		work.Release()
		p.lock, err = p.dir.Supervise()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

func (p *played) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock.Release()
}

func (p *played) listen(t *testing.T) {
	t.Helper()
	socket, err := p.dir.Socket()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := http.Server{Handler: p}
	go func() { _ = server.Serve(l) }() // it ends with Close
	t.Cleanup(func() { _ = server.Close() })
}

// ServeHTTP answers with the next phase. After "gone" the supervisor has ended.
func (p *played) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Path == "/stop" {
		p.stops++
		if p.told != nil {
			p.told()
		}
		p.lock.Release()
		return
	}
	phase := p.left[0]
	if len(p.left) > 1 {
		p.left = p.left[1:]
	}
	if phase == "gone" {
		p.lock.Release()
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(supervisor.Status{Phase: phase})
}

// up waits for a cluster that starts or stops. Only a ready one is running already.
func TestSettled(t *testing.T) {
	for name, test := range map[string]struct {
		phases []string
		want   string
	}{
		"ready":                  {[]string{"ready"}, "ready"},
		"starting":               {[]string{"starting", "starting", "ready"}, "ready"},
		"starting, then it ends": {[]string{"starting", "gone"}, ""},
		"stopping":               {[]string{"stopping", "stopping", "gone"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t, test.phases...)
			p.listen(t)
			s, err := settled(t.Context(), say, p.dir)
			if err != nil || s == nil && test.want != "" || s != nil && s.Phase != test.want {
				t.Errorf("settled: %+v, %v, want %q", s, err, test.want)
			}
		})
	}
}

// down tells a supervisor that does not listen yet again, once it does.
func TestEndsASupervisorThatStarts(t *testing.T) {
	p := play(t, "starting")
	deaf, ended := make(chan struct{}), make(chan error, 1)
	tell := sync.OnceFunc(func() { close(deaf) })
	go func() { ended <- endSupervisor(t.Context(), func(string, ...any) { tell() }, p.dir) }()
	<-deaf
	p.listen(t)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stops != 1 {
		t.Errorf("it was told %d times", p.stops)
	}
}

// An up that begins while down ends the cluster waits for down, which would end the next one too.
func TestUpWaitsForDown(t *testing.T) {
	p := play(t, "ready")
	cluster{t: t, dir: p.dir}.record(state.Record{Settings: state.Settings{Name: "x"}})
	p.told = func() {
		if work, err := p.dir.TryWork(); work != nil || err != nil {
			work.Release()
			t.Errorf("an up could begin: %v", err)
		}
	}
	p.listen(t)
	if err := down(t.Context(), target{path: string(p.dir)}, nil); err != nil || p.stops != 1 {
		t.Errorf("down: %v, told %d times", err, p.stops)
	}
	work, err := p.dir.TryWork()
	if work == nil || err != nil {
		t.Errorf("after down: %v", err)
	}
	work.Release()
}

// A down of an ephemeral cluster leaves one that up has made after it.
func TestDownLeavesTheNextCluster(t *testing.T) {
	p := play(t, "ready")
	c := cluster{t: t, dir: p.dir}
	c.record(state.Record{Settings: state.Settings{Name: "x", Ephemeral: true}})
	p.told = func() {
		if _, err := p.dir.Remove(p.lock); err != nil {
			t.Error(err)
		}
		work, err := p.dir.Work(t.Context(), func() {})
		if err != nil {
			t.Error(err)
		}
		work.Release()
		c.record(state.Record{Settings: state.Settings{Name: "next"}})
	}
	p.listen(t)
	if err := down(t.Context(), target{path: string(p.dir)}, []string{"--delete"}); err != nil || p.stops != 1 {
		t.Errorf("down: %v, told %d times", err, p.stops)
	}
	c.expect("cluster.json", "pintle.lock")
}

// A supervisor whose process is not the recorded one is not killed, and counts as running.
func TestKillsOnlyTheRecordedSupervisor(t *testing.T) {
	p := play(t, "ready")
	o := newOwner(t)
	record := state.Record{Settings: state.Settings{Name: "x"}}
	record.Supervisor = process.Identity{PID: o.cmd.Process.Pid, Started: "another time"}
	if err := p.dir.SetRecord(record); err != nil {
		t.Fatal(err)
	}
	if err := killSupervisor(say, p.dir); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("killSupervisor: %v", err)
	}
	if _, err := process.Identify(o.cmd.Process.Pid); err != nil {
		t.Errorf("the stranger: %v", err)
	}
}
