package contract

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/controller"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// The tenants and timelines of the recordings.
var (
	t1, t2, t3 = ids('a', "1"), ids('a', "2"), ids('a', "3")
	b1, b2, b3 = ids('b', "1"), ids('b', "2"), ids('b', "3")
	b31        = ids('b', "31")
	x1         = ids('c', "01")
)

func ids(fill rune, end string) string { return strings.Repeat(string(fill), 32-len(end)) + end }

// TestFirstDay replays calls.log: the registration of all, tenants and timelines, branches, the
// deletion that destroys, a drain, a migration of safekeepers, a split.
func TestFirstDay(t *testing.T) {
	t.Parallel()
	r, hooks := newReplay(t, "calls.log", "hooks.jsonl")
	r.at = map[int]func(){
		1: func() {
			r.lab.StartController(r)
			r.keeper(1)
			r.keeper(2)
			r.keeper(3)
		},
		29: func() { r.pageserver(1); r.heartbeat() },
		43: func() { r.pageserver(2); r.heartbeat() },
		// The branch from an LSN in the future was tried again, and hung until the drain.
		109: func() { r.begin(161) },
		125: r.settle,
		143: func() {
			r.written(t3, b31, "0/1F87030", "07:38:30")
			r.written(t3, b31, "0/1F8FD58", "07:39:02")
			r.written(t3, b31, "0/1F8FDB0", "07:39:04")
		},
		155: func() { r.lab.Controller.Hold(100) },
		175: func() { r.attached(t3, 2) },
		177: func() { r.lab.Controller.Release(); r.scheduling(1, upstream.SchedulePauseForRestart) },
		182: func() { r.stop("pageserver-1"); r.pageserver(1) },
		187: func() { r.heartbeat(); r.optimise(); r.keeper(4) },
		189: r.heartbeat,
	}
	r.run()
	r.checkHooks(hooks)
}

// TestSecondDay replays calls-2.log: branches under computes, pageservers and safekeepers that
// restart, are lost and are deleted, and a storage controller without its database.
func TestSecondDay(t *testing.T) {
	t.Parallel()
	r, hooks := newReplay(t, "calls-2.log", "hooks-2.jsonl")
	r.at = map[int]func(){
		1: func() {
			r.lab.StartController(r)
			for id := 1; id <= 4; id++ {
				r.keeper(id)
			}
			r.pageserver(2)
			r.heartbeat()
			r.pageserver(1)
		},
		13:  r.heartbeat,
		156: func() { r.written(t2, b2, "0/20C93F0", "08:11:25") },
		// Heartbeats tell the storage controller how many timelines each safekeeper has.
		60:  r.heartbeat,
		64:  r.heartbeat,
		293: func() { r.heartbeat(); r.written(t1, b1, "0/2115980", "08:13:00") },
		327: func() { r.written(t1, x1, "0/2117090", "08:13:46") },
		362: func() { r.written(t1, x1, "0/21171C0", "08:14:10") },
		405: r.settle,
		443: func() { r.stop("pageserver-1") },
		446: func() { r.pageserver(1) },
		468: func() {
			r.heartbeat()
			r.stop("pageserver-1")
			r.forget(1)
			r.heartbeat()
		},
		513: func() { r.stop("controller"); r.lab.StartPageserver(r, 1) },
		// When the storage controller starts, it tells all tenants again.
		521: func() { r.lab.StartController(r); r.lab.WaitPageserver(r, 1); r.heartbeat(); r.told(3, t1, t3) },
		526: func() {
			r.written(t1, b1, "0/25DF580", "08:18:50")
			r.lab.Postgres.Stop(r)
		},
		548: func() { r.lab.Postgres.Start(r) },
		// Two safekeepers of the set were down, by a mistake of the script that recorded it.
		552: func() { r.stop("safekeeper-2"); r.stop("safekeeper-4") },
		570: func() { r.keeper(2); r.keeper(4); r.optimise() },
		574: func() { r.pageserver(3); r.heartbeat() },
		577: func() { r.lab.Controller.Hold(1) },
		579: func() { r.attached(t2, 1) },
		584: func() { r.lab.Controller.Release(); r.scheduling(2, upstream.ScheduleActive) },
		591: func() { r.scheduling(3, upstream.ScheduleActive) },
		602: func() { r.lab.Controller.Hold(0) },
		606: func() { r.attached(t1, 2); r.attached(t2, 2); r.attached(t3, 2) },
		609: func() { r.lab.Controller.Release(); r.scheduling(1, upstream.ScheduleActive) },
		614: func() { r.gone(1) },
		636: func() { r.wipe(4) },
		666: func() { r.written(t2, b2, "0/20F23D8", "08:21:44") },
		712: func() { r.stop("pageserver-1"); r.lab.StartPageserver(r, 1) },
		725: func() { r.lab.WaitPageserver(r, 1) },
		727: r.heartbeat,
		747: func() {
			// A pageserver with the identity of another is refused for as long as it tries.
			r.stop("pageserver-3")
			r.lab.StartPageserverAs(r, 3, 2)
			time.Sleep(100 * time.Millisecond) // some tries
			r.stop("pageserver-3")
		},
		752: func() { r.gone(3) },
		756: func() {
			r.settle()
			if err := r.lab.Over(r, "controller"); !errors.Is(err, controller.ErrPanicked) {
				r.Errorf("the storage controller ended with %v, want %v", err, controller.ErrPanicked)
			}
		},
		767: func() { r.lab.StartController(r); r.told(6, t1, t3) },
		771: r.optimise,
		775: func() { r.written(t1, b1, "0/25DF6B8", "08:23:30") },
		813: func() { r.settle(); r.heartbeat(); r.restartKeeper(1); r.restartKeeper(2); r.restartKeeper(3) },
		841: func() { r.written(t3, b3, "0/4123868", "08:24:00") },
		850: func() { r.stop("safekeeper-1") },
		859: func() { r.keeper(1) },
		869: func() { r.lab.StartPageserver(r, 3) },
		871: func() { r.lab.WaitPageserver(r, 3); r.heartbeat() },
		873: func() { r.gone(1) },
		877: func() { r.stop("pageserver-3") },
		887: func() { r.forget(3); r.heartbeat() },
	}
	r.run()
	r.checkHooks(hooks)
}

// forget lets a pageserver that does not answer be taken for offline at the next heartbeat.
func (r *replay) forget(node int64) {
	if err := r.lab.Controller.Forget(node); err != nil {
		r.Fatal(err)
	}
}
