package measure

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// Changes is the part of a Plan that is about a store whose objects change. The resource versions
// of the changes are numbers without gaps.
type Changes struct {
	Warm int64 // resource version of the change at which the measurement begins
	Last int64 // and ends
}

// moment is the use of a process at the time when it sees a change.
type moment struct {
	at  int64 // the change
	cpu time.Duration
}

// runChanges measures a store while its objects change.
func runChanges(ctx context.Context, s Store, plan Plan) (r Result, err error) {
	var shown atomic.Int64
	begin, end := make(chan moment, 1), make(chan moment, 1)
	begun, ended := false, false // of the goroutine that is shown the changes
	err = s.Follow(ctx, func(resourceVersion string) {
		at, err := strconv.ParseInt(resourceVersion, 10, 64)
		if err != nil || at < plan.Changes.Warm {
			return
		}
		shown.Add(1)
		if !begun {
			begun = true
			begin <- moment{at, cpuTime()}
		}
		if at >= plan.Changes.Last && !ended {
			ended = true
			end <- moment{at, cpuTime()}
		}
	})
	if err != nil {
		return r, fmt.Errorf("sync: %w", err)
	}
	var first, last moment
	select {
	case first = <-begin:
	case <-ctx.Done():
		return r, ctx.Err()
	}
	stopProfile, err := startCPUProfile(plan.CPUProfile)
	if err != nil {
		return r, err
	}
	select {
	case last = <-end:
	case <-ctx.Done():
		return r, ctx.Err()
	}
	stopProfile()
	if r.RSS, err = StatusField(os.Getpid(), "VmRSS"); err != nil {
		return r, err
	}
	r.Changes = last.at - first.at
	r.Shown = shown.Load()
	r.Change = (last.cpu - first.cpu) / time.Duration(r.Changes)
	if r.Objects, err = s.Len(ctx); err != nil {
		return r, fmt.Errorf("count objects: %w", err)
	}
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.Heap = mem.HeapAlloc
	runtime.KeepAlive(s)
	return r, nil
}
