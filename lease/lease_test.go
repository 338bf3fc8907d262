package lease

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/kube"
)

// process plays a process that competes for the lease. While it holds the lease, it
// writes again and again.
type process struct {
	t      testing.TB
	who    string
	client *kube.Client
	*connection
	lease Lease
	every time.Duration // the interval of its writes
	skew  atomic.Int64  // of its wall clock
	// linger is how long it goes on writing after it was told to stop.
	linger atomic.Int64

	stop  context.CancelFunc
	ended chan struct{}
	err   error // returned by Run

	mu      sync.Mutex
	acting  func() error // the error of the function's context, while the function runs
	began   time.Time
	quit    time.Time // when Run returned
	refused error     // of the first failed write
}

func (s *server) start(t testing.TB, who string) *process {
	t.Helper()
	return s.process(t, who).run()
}

func (s *server) process(t testing.TB, who string) *process {
	t.Helper()
	p := &process{t: t, who: who, every: 100 * time.Millisecond}
	p.client, p.connection = s.connect(t, who)
	p.lease = Lease{Client: p.client, Name: "one", Identity: who, Logger: testLogger(t, who)}
	p.lease.wall = func() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) }
	t.Cleanup(func() {
		if p.stop == nil {
			return
		}
		p.end()
		time.Sleep(2 * time.Minute) // requests that are still on the network arrive
	})
	return p
}

func (p *process) run() *process {
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	ended := make(chan struct{})
	p.ended = ended
	go func() {
		defer close(ended)
		p.err = p.lease.Run(ctx, p.act)
	}()
	return p
}

func (p *process) end() {
	p.t.Helper()
	p.stop()
	<-p.ended
}

func (p *process) act(ctx context.Context) error {
	p.mu.Lock()
	p.acting, p.began = ctx.Err, time.Now()
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.acting, p.quit = nil, time.Now()
		p.mu.Unlock()
	}()
	for i := 0; ctx.Err() == nil; i++ {
		p.write(ctx, i)
		p.wait(ctx, p.every)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(p.linger.Load()))
	defer cancel()
	for i := 0; late.Err() == nil; i++ {
		p.write(late, i)
		p.wait(late, p.every)
	}
	return nil
}

func (p *process) wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (p *process) write(ctx context.Context, i int) {
	o := &corev1.ConfigMap{}
	o.Namespace, o.Name = "default", fmt.Sprintf("%s-%d-%d", p.who, time.Now().UnixMilli(), i)
	if _, err := kube.For[corev1.ConfigMap](p.client).Create(ctx, o); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.refused == nil {
			p.refused = err
		}
	}
}

// acts reports whether the process may act, according to its context.
func (p *process) acts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acting != nil && p.acting() == nil
}

// since returns the time at which the process began to act.
func (p *process) since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.began
}

func (p *process) wantLost() {
	p.t.Helper()
	<-p.ended
	if !errors.Is(p.err, ErrLost) {
		p.t.Errorf("Run of %s: %v", p.who, p.err)
	}
}

func (s *server) lastWrite(who string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at time.Time
	for _, w := range s.writes {
		if w.who == who {
			at = w.at
		}
	}
	return at
}

// inBubble runs a test in virtual time, on a server where a holds the lease.
func inBubble(t *testing.T, test func(t *testing.T, s *server, a *process)) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a")
		time.Sleep(10 * time.Second)
		if !a.acts() {
			t.Fatal("a does not hold the lease that nobody else wants")
		}
		test(t, s, a)
	})
}

func TestReleaseIsTakenAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, a *process) {
		a.linger.Store(int64(time.Minute)) // for several durations
		b := s.start(t, "b")
		time.Sleep(10 * time.Minute)
		if b.acts() {
			t.Fatal("b holds the lease of a")
		}
		a.stop()
		time.Sleep(59 * time.Second)
		if b.acts() {
			t.Fatal("b acts before a has stopped")
		}
		if time.Since(s.lastWrite("a")) > time.Second {
			t.Errorf("a could not write while it stopped: %v", a.refused)
		}
		<-a.ended
		released := time.Now()
		if a.err != nil {
			t.Errorf("a clean stop: %v", a.err)
		}
		time.Sleep(time.Second)
		if !b.acts() || b.since().Sub(released) > 100*time.Millisecond {
			t.Errorf("b acts %s after the release", b.since().Sub(released))
		}
		if n := value(s.current().Spec.LeaseTransitions); n != 1 {
			t.Errorf("%d transitions", n)
		}
	})
}

func TestSilentHolderIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, a *process) {
		b := s.start(t, "b")
		time.Sleep(10*time.Second + 500*time.Millisecond)
		a.faults.set(func(f *faults) { f.cut = true })
		cut := time.Now()
		a.wantLost()
		if lost := time.Since(cut); lost > 12*time.Second+5*time.Second {
			t.Errorf("a has ended %s after it was cut off", lost)
		}
		for !b.acts() {
			time.Sleep(10 * time.Millisecond)
		}
		if after := time.Since(cut); after > 16*time.Second {
			t.Errorf("b acts %s after a was cut off", after)
		}
	})
}

func TestSlowServer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, a *process) {
		a.faults.set(func(f *faults) { f.after = 4 * time.Second })
		time.Sleep(10 * time.Minute)
		if !a.acts() {
			t.Fatalf("a has lost the lease to answers that take 4 s: %v", a.err)
		}
		// All requests arrive, and no answer comes in time.
		a.faults.set(func(f *faults) { f.before, f.after = 10*time.Second, 10*time.Second })
		b := s.start(t, "b")
		s.watchWrites(func(who string) {
			if who == "a" && b.acts() {
				t.Error("a starts a write while b acts")
			}
		})
		a.wantLost()
		if !errors.Is(a.refused, ErrLost) {
			t.Errorf("the write that was under way: %v", a.refused)
		}
		for !b.acts() {
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// TestTermIsCountedFromTheRequest: other processes may count from the execution of the
// request, however late its answer is.
func TestTermIsCountedFromTheRequest(t *testing.T) {
	for name, renewals := range map[string]time.Duration{"taken": time.Second, "renewed": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				a := s.process(t, "a")
				a.faults.after = 4 * time.Second
				a.run()
				time.Sleep(8*time.Second + renewals) // of which the first look takes 4
				a.faults.set(func(f *faults) { f.cut = true })
				a.wantLost()
				if after := a.quit.Sub(
					s.current().Spec.RenewTime.Time,
				); after > 12*time.Second+time.Millisecond ||
					after < 11*time.Second {
					t.Errorf("a has acted until %s after its last renewal", after)
				}
			})
		})
	}
}

func TestAnswersOfRenewalsAreLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, a *process) {
		b := s.start(t, "b")
		for range 100 {
			a.faults.set(func(f *faults) { f.lose = 1 })
			time.Sleep(10 * time.Second)
			if !a.acts() || b.acts() {
				t.Fatalf("a acts: %v, b acts: %v", a.acts(), b.acts())
			}
		}
	})
}

func TestAnswerOfAcquisitionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.process(t, "a")
		a.faults.lose = 1
		a.run()
		time.Sleep(40 * time.Second)
		if !a.acts() {
			t.Error("a does not act")
		}
		a.end()

		// A candidate that stops meanwhile leaves nothing behind.
		a = s.process(t, "c")
		a.faults.lose = 1
		a.run()
		time.Sleep(time.Second)
		a.end()
		if holder(s.current()) != "" {
			t.Errorf("%q holds the lease", holder(s.current()))
		}
		if !a.since().IsZero() {
			t.Error("c has acted")
		}
	})
}

func TestTimeOfDayIsSet(t *testing.T) {
	for name, test := range map[string]struct {
		by   time.Duration
		kept bool
	}{
		"back an hour":       {-time.Hour, true},
		"a second ahead":     {time.Second, true},
		"a minute ahead":     {time.Minute, false},
		"a few hours ahead":  {5 * time.Hour, false},
		"back some years":    {-3 * 365 * 24 * time.Hour, true},
		"ahead by the term":  {12 * time.Second, false},
		"ahead by a renewal": {3 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *server, a *process) {
				at := s.lastWrite("a")
				a.skew.Store(int64(test.by))
				time.Sleep(time.Minute)
				if a.acts() != test.kept {
					t.Errorf("a acts: %v, %v", a.acts(), a.err)
				}
				if !test.kept {
					a.wantLost()
					if last := s.lastWrite("a"); last.Sub(at) > 100*time.Millisecond {
						t.Errorf("a has written for %s after its clock was set", last.Sub(at))
					}
				}
			})
		})
	}
}

func TestOthersMeddle(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*coordinationv1.Lease) *coordinationv1.Lease
		kept   bool
	}{
		"deletes it": {func(*coordinationv1.Lease) *coordinationv1.Lease { return nil }, true},
		"labels it": {func(l *coordinationv1.Lease) *coordinationv1.Lease {
			l.Labels = map[string]string{"a": "b"}
			return l
		}, true},
		"gives it away": {func(l *coordinationv1.Lease) *coordinationv1.Lease {
			other := "somebody"
			l.Spec.HolderIdentity = &other
			return l
		}, false},
		"releases it": {func(l *coordinationv1.Lease) *coordinationv1.Lease {
			l.Spec.HolderIdentity = nil
			return l
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *server, a *process) {
				s.edit(test.change)
				time.Sleep(4 * time.Second)
				if a.acts() != test.kept {
					t.Errorf("a acts: %v, %v", a.acts(), a.err)
				}
				if test.kept && holder(s.current()) != "a" {
					t.Errorf("the lease is held by %q", holder(s.current()))
				}
				if !test.kept {
					a.wantLost()
				}
			})
		})
	}
}

// TestDeletedLeaseIsWaitedFor: a candidate that has seen a holder does not take a lease
// that was deleted under that holder.
func TestDeletedLeaseIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server, a *process) {
		b := s.start(t, "b")
		time.Sleep(time.Minute)
		s.edit(func(*coordinationv1.Lease) *coordinationv1.Lease { return nil })
		for range 1000 {
			time.Sleep(100 * time.Millisecond)
			if !a.acts() || b.acts() {
				t.Fatalf("a acts: %v, b acts: %v", a.acts(), b.acts())
			}
		}
	})
}

func TestWriteAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		client, _ := s.connect(t, "a")
		var kept context.Context
		l := Lease{Client: client, Name: "one"}
		boom := errors.New("boom")
		err := l.Run(t.Context(), func(ctx context.Context) error {
			kept = context.WithoutCancel(ctx)
			return boom
		})
		if err != boom { //nolint:errorlint // it is returned as it is
			t.Errorf("Run: %v", err)
		}
		o := new(corev1.ConfigMap)
		o.Namespace, o.Name = "default", "late"
		if _, err := kube.For[corev1.ConfigMap](client).Create(kept, o); !errors.Is(err, errEnded) {
			t.Errorf("a write after the function has returned: %v", err)
		}
	})
}

func TestChangesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.start(t, "a")
		time.Sleep(time.Second)
		client, _ := s.connect(t, "b")
		var told []string
		b := Lease{Client: client, Name: "one", Identity: "b", OnChange: func(holder string, mine bool) {
			told = append(told, fmt.Sprint(holder, mine))
		}}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Minute)
			a.stop()
			time.Sleep(time.Minute)
			cancel()
		}()
		if err := b.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }); err != nil {
			t.Error(err)
		}
		if got, want := fmt.Sprint(told), "[afalse btrue false]"; got != want && got != "[afalse false btrue false]" {
			t.Errorf("told %s, want %s", got, want)
		}
	})
}

// An OnChange that breaks changes nothing: neither getting the lease nor losing it.
func TestOnChangeBreaks(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("broken") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				a := s.process(t, "a")
				a.lease.OnChange = func(string, bool) { fail() }
				a.run()
				time.Sleep(2 * time.Minute)
				if !a.acts() {
					t.Error("it does not hold the lease")
				}
				client, _ := s.connect(t, "b")
				leases := kube.For[coordinationv1.Lease](client).In(a.client.Namespace())
				other := "b"
				for err := error(apierrors.NewConflict(schema.GroupResource{}, "one", nil)); err != nil; {
					if !apierrors.IsConflict(err) { // the holder may renew the lease meanwhile
						t.Fatal(err)
					}
					l, readErr := leases.Get(t.Context(), "one")
					if readErr != nil {
						t.Fatal(readErr)
					}
					l.Spec.HolderIdentity = &other
					_, err = leases.Update(t.Context(), l)
				}
				a.wantLost()
			})
		})
	}
}

func TestBadLeases(t *testing.T) {
	client, _ := newServer().connect(t, "a")
	for name, l := range map[string]Lease{
		"no client":       {Name: "one"},
		"no name":         {Client: client},
		"short":           {Client: client, Name: "one", Duration: time.Millisecond},
		"negative":        {Client: client, Name: "one", Margin: -1},
		"margin too long": {Client: client, Name: "one", Margin: 14 * time.Second},
	} {
		if err := l.Run(t.Context(), nil); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			t.Log(err)
		}
	}
}
