package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// keeper is a safekeeper with one timeline, which can crash.
type keeper struct {
	dir     string
	address string
	door    *door
	log     *Log
	stop    context.CancelFunc
	done    chan error
}

const (
	tenant   = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	timeline = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	password = "token"
)

var errToken = errors.New("a wrong token")

func (k *keeper) start() error {
	if k.door == nil {
		door, err := newDoor()
		if err != nil {
			return err
		}
		k.door, k.address = door, door.Addr().String()
	}
	log, err := OpenLog(k.dir)
	if err != nil {
		return err
	}
	k.log = log
	l := k.door.open()
	ctx, cancel := context.WithCancel(context.Background())
	k.stop, k.done = cancel, make(chan error, 1)
	s := &Server{
		Find: func(_, name string) (*Log, error) {
			if name != timeline {
				return nil, fmt.Errorf("timeline %s not found", name)
			}
			return log, nil
		},
		Verify: func(token, of string) error {
			if token != password || of != tenant {
				return errToken
			}
			return nil
		},
	}
	go func() { k.done <- s.Serve(ctx, l) }()
	return nil
}

// close ends the keeper for good.
func (k *keeper) close() error { return errors.Join(k.crash(), k.door.shut()) }

func (k *keeper) crash() error {
	if k.stop == nil {
		return nil
	}
	k.stop()
	err := errors.Join(<-k.done, k.log.Close())
	k.stop = nil
	return err
}

func startKeepers(dir string, count int) ([]*keeper, error) {
	var keepers []*keeper
	for i := range count {
		k := &keeper{dir: filepath.Join(dir, fmt.Sprint(i))}
		l, err := CreateLog(k.dir, Start, Configuration{})
		if err != nil {
			return nil, err
		}
		if err := errors.Join(l.Close(), k.start()); err != nil {
			return nil, err
		}
		keepers = append(keepers, k)
	}
	return keepers, nil
}

func group(keepers []*keeper) Group {
	g := Group{Timeline: Timeline{Tenant: tenant, Timeline: timeline, Token: password}}
	for _, k := range keepers {
		g.Safekeepers = append(g.Safekeepers, k.address)
	}
	return g
}

// primary is a proposer with its WAL, like a compute.
type primary struct {
	*Proposer
	wal    *made
	cancel context.CancelFunc
	ended  chan error
}

// startPrimary begins like a compute.
func startPrimary(g Group) (*primary, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var p *primary
	var err error
	for p == nil && ctx.Err() == nil { // the donor may crash before all is fetched
		p, err = tryPrimary(ctx, g)
	}
	return p, err
}

func tryPrimary(ctx context.Context, g Group) (*primary, error) {
	proposer, err := Elect(ctx, g)
	if err != nil {
		return nil, err
	}
	m := &made{start: Start}
	if err := proposer.Fetch(ctx, Start, func(_ LSN, wal []byte) error {
		m.bytes = append(m.bytes, wal...)
		return nil
	}); err != nil {
		return nil, err
	}
	end, err := NewScanner(m, Start).Last(m.end())
	if err != nil {
		return nil, err
	}
	if end > m.end() {
		m.bytes = append(m.bytes, make([]byte, end-m.end())...)
	}
	m.cut(end)
	own, stop := context.WithCancel(context.Background())
	p := &primary{Proposer: proposer, wal: m, cancel: stop, ended: make(chan error, 1)}
	go func() { p.ended <- proposer.Run(own, m, end) }()
	return p, nil
}

func (p *primary) stop() error {
	p.cancel()
	return <-p.ended
}

// write adds records and returns the WAL up to the last one that became durable in time.
func (p *primary) write(random *rand.Rand, records int, wait time.Duration) []byte {
	var last LSN
	for range records {
		last = p.wal.add(random, random.IntN(300))
		p.Offer(last)
	}
	timeout := time.After(wait)
	var durable LSN
	for durable < last {
		select {
		case durable = <-p.Durable():
			continue
		case <-timeout:
		}
		break
	}
	p.wal.mu.Lock()
	defer p.wal.mu.Unlock()
	return bytes.Clone(p.wal.bytes[:max(min(durable, last), Start)-Start])
}

// No acknowledged byte is lost, however many crashes and proposers there are.
func TestAcknowledgedWALStays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "wal") //nolint:usetesting // each of rapid's runs needs its own
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // it is in the directory for temporary files
		if err := play(t, dir); err != nil {
			t.Fatal(err)
		}
	})
}

func play(t *rapid.T, dir string) (failed error) {
	keepers, err := startKeepers(dir, 3)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
	var acknowledged []byte
	var primaries []*primary
	defer func() {
		for _, p := range primaries {
			if err := p.stop(); err != nil && !errors.Is(err, ErrTerm) {
				failed = errors.Join(failed, err)
			}
		}
		for _, k := range keepers {
			failed = errors.Join(failed, k.close())
		}
	}()
	note := func(wal []byte) error {
		n := min(len(wal), len(acknowledged))
		if !bytes.Equal(wal[:n], acknowledged[:n]) {
			return fmt.Errorf("two proposers were told that different WAL is durable")
		}
		if len(wal) > len(acknowledged) {
			acknowledged = wal
		}
		return nil
	}
	down := 0
	start := func() error {
		p, err := startPrimary(group(keepers))
		if err != nil {
			return err
		}
		primaries = append(primaries, p)
		return nil
	}
	for range rapid.IntRange(3, 12).Draw(t, "steps") {
		k := keepers[rapid.IntRange(0, 2).Draw(t, "keeper")]
		switch rapid.SampledFrom([]string{"write", "write", "crash", "restart", "primary", "torn"}).Draw(t, "step") {
		case "write":
			if len(primaries) > 0 {
				p := primaries[rapid.IntRange(0, len(primaries)-1).Draw(t, "writer")]
				err = note(p.write(random, rapid.IntRange(1, 20).Draw(t, "records"), 30*time.Millisecond))
			}
		case "crash":
			if k.stop != nil {
				down++
				err = k.crash()
			}
		case "torn": // a crash in the middle of a write
			if k.stop != nil {
				down++
				garbage := make([]byte, 1+random.IntN(100))
				for i := range garbage {
					garbage[i] = byte(random.Uint32())
				}
				err = errors.Join(k.crash(), appendFile(filepath.Join(k.dir, dataName), garbage))
			}
		case "restart":
			if k.stop == nil {
				down--
				err = k.start()
			}
		case "primary":
			if down < 2 {
				err = start()
			}
		}
		if err != nil {
			return err
		}
	}
	for _, k := range keepers {
		if k.stop == nil {
			if err := k.start(); err != nil {
				return err
			}
		}
	}
	if err := start(); err != nil {
		return err
	}
	last := primaries[len(primaries)-1]
	if !bytes.HasPrefix(last.wal.bytes, acknowledged) {
		return fmt.Errorf("%d bytes were acknowledged, %d are found, and they differ or are fewer", len(acknowledged), len(last.wal.bytes))
	}
	wrote := last.write(random, 1, 5*time.Second)
	if len(wrote) <= len(acknowledged) {
		return errors.New("with all safekeepers up nothing becomes durable")
	}
	return note(wrote)
}

func appendFile(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

func TestTheSecondProposerEndsTheFirst(t *testing.T) {
	t.Parallel()
	keepers, err := startKeepers(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer stopAll(t, keepers)
	random := rand.New(rand.NewPCG(1, 1))
	first, err := startPrimary(group(keepers))
	if err != nil {
		t.Fatal(err)
	}
	if wal := first.write(random, 3, 5*time.Second); len(wal) == 0 {
		t.Fatal("nothing is durable")
	}
	second, err := startPrimary(group(keepers))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-first.ended:
		if !errors.Is(err, ErrTerm) {
			t.Errorf("the first ends with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the first goes on")
	}
	first.cancel()
	if wal := second.write(random, 3, 5*time.Second); len(wal) == 0 {
		t.Error("the second can't write")
	}
	if err := second.stop(); err != nil {
		t.Error(err)
	}
}

func TestTheSetOfSafekeepersChanges(t *testing.T) {
	t.Parallel()
	keepers, err := startKeepers(t.TempDir(), 4)
	if err != nil {
		t.Fatal(err)
	}
	defer stopAll(t, keepers)
	random := rand.New(rand.NewPCG(1, 1))
	g := group(keepers[:3])
	g.Generation = 1
	p, err := startPrimary(g)
	if err != nil {
		t.Fatal(err)
	}
	before := p.write(random, 3, 5*time.Second)
	member := func(i int) Member { return Member{uint64(i), keepers[i].address} }
	final := Configuration{Generation: 3, Members: []Member{member(1), member(2), member(3)}}
	joint := Configuration{Generation: 2, Members: []Member{member(0), member(1), member(2)}, NewMembers: final.Members}
	for _, c := range []Configuration{joint, final} {
		for _, k := range keepers {
			if err := k.log.Configure(c); err != nil {
				t.Fatal(err)
			}
		}
		if after := p.write(random, 3, 5*time.Second); len(after) <= len(before) {
			t.Fatalf("with generation %d nothing is durable", c.Generation)
		}
	}
	// The first is no member any more: two of the others are enough, it is not.
	if err := errors.Join(keepers[0].crash(), keepers[1].crash()); err != nil {
		t.Fatal(err)
	}
	before = p.write(random, 1, 5*time.Second)
	if keepers[3].log.State().Flush < Start+LSN(len(before)) {
		t.Error("the member that came in has not all WAL")
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// While the set changes, the list of a compute has the safekeepers of both sets. One of the old set is
// lost and one of the new is not there yet. The two others are enough for a compute that starts, and for
// one that gets the list while it runs.
func TestListWhileTheSetChanges(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"it starts": false, "it runs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keepers, err := startKeepers(t.TempDir(), 4)
			if err != nil {
				t.Fatal(err)
			}
			defer stopAll(t, keepers)
			member := func(i int) Member { return Member{uint64(i), keepers[i].address} }
			joint := Configuration{
				Generation: 2, Members: []Member{member(0), member(1), member(2)},
				NewMembers: []Member{member(1), member(2), member(3)},
			}
			before, list := group(keepers[:3]), group(keepers)
			before.Generation, list.Generation = 1, 2
			random := rand.New(rand.NewPCG(1, 1))
			var p *primary
			var was []byte
			if running {
				if p, err = startPrimary(before); err != nil {
					t.Fatal(err)
				}
				was = p.write(random, 1, 5*time.Second)
			}
			if err := errors.Join(keepers[0].crash(), keepers[3].crash()); err != nil {
				t.Fatal(err)
			}
			for _, k := range keepers[1:3] {
				if err := k.log.Configure(joint); err != nil {
					t.Fatal(err)
				}
			}
			if running {
				p.Reconfigure(list.Safekeepers, list.Generation)
			} else if p, err = startPrimary(list); err != nil {
				t.Fatal(err)
			}
			if is := p.write(random, 1, 5*time.Second); len(is) <= len(was) {
				t.Error("nothing is durable")
			}
			if err := p.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTokensAndTimelinesOfConnections(t *testing.T) {
	t.Parallel()
	keepers, err := startKeepers(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer stopAll(t, keepers)
	for want, as := range map[string]Timeline{
		errToken.Error():               {Tenant: tenant, Timeline: timeline, Token: "wrong"},
		"timeline " + tenant + " not ": {Tenant: tenant, Timeline: tenant, Token: password},
	} {
		c, err := Dial(t.Context(), keepers[0].address, as)
		if err == nil {
			c.Close()
			t.Errorf("%+v is let in", as)
		} else if !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("%+v: %v, want %q", as, err, want)
		}
	}
}

func stopAll(t *testing.T, keepers []*keeper) {
	t.Helper()
	var stopping sync.WaitGroup
	for _, k := range keepers {
		stopping.Go(func() {
			if err := k.close(); err != nil {
				t.Error(err)
			}
		})
	}
	stopping.Wait()
}
