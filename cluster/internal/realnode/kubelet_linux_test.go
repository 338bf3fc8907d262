package realnode

import (
	"context"
	"errors"
	"testing"

	"github.com/pintle-go/pintle/cluster/internal/process"
)

// A restart of the kubelet that fails can be repeated, and the status tells of it.
func TestRestartKubeletAgain(t *testing.T) {
	group, err := process.NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	r := &run{processes: map[string]*process.Process{}}
	launch := func(context.Context) error {
		p, err := group.Start(process.Spec{Name: kubelet, Path: "/bin/sleep", Args: []string{"3600"}, Foreign: true})
		r.processes[kubelet] = p
		return err
	}
	broken := errors.New("no certificate")
	fail := func(context.Context) error { return broken }
	if err := launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := &Node{}
	if got := n.Status(); got != nil {
		t.Errorf("before the start: %+v", got)
	}
	for i, step := range []struct {
		start func(context.Context) error
		want  error
		state string
	}{
		{launch, nil, "running"}, {fail, broken, "failed"}, {fail, broken, "failed"}, {launch, nil, "running"},
	} {
		before := r.processes[kubelet]
		err := r.restartKubelet(t.Context(), step.start)
		n.tell(r.processes[kubelet], err)
		if !errors.Is(err, step.want) {
			t.Errorf("restart %d: %v, want %v", i, err, step.want)
		}
		if got := n.Status(); len(got) != 1 || got[0].State != step.state || (got[0].LastEnd == "") != (err == nil) {
			t.Errorf("restart %d: status %+v, want %s", i, got, step.state)
		}
		if before != nil {
			<-before.Done()
		}
	}
	p := r.processes[kubelet]
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
}
