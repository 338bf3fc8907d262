// Package measure runs inside a measured process. It starts one store, measures its time
// and its memory, and reads from it, in the same way for the peer and for us.
package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pintle-go/pintle/bench/fixture"
)

// A Store is one thing to measure.
type Store struct {
	// Sync connects, starts the store and returns when the store holds all objects.
	Sync func(context.Context) error
	// Len returns the number of objects held.
	Len func(context.Context) (int, error)
	// Get reads the object with this namespace and name. Nil: not measured.
	Get func(ctx context.Context, namespace, name string) error
	// Index adds an index by application to the store. It returns a function that looks
	// up in the index and returns the number of objects found. Nil: not measured.
	Index func(context.Context) (Lookup, error)
	// Small starts a second store over one namespace only, with the same index. It shows
	// whether the time of a look-up depends on the size. It goes with Index.
	Small func(ctx context.Context, namespace string) (Lookup, error)
	// Follow does the same as Sync, with an index, and has saw called with the resource version
	// of each object that changes afterwards, as a program does that reads the object. It is
	// for a Plan with Changes, and needs only Len beside it.
	Follow func(ctx context.Context, saw func(resourceVersion string)) error
}

// Lookup finds the objects of an application and returns their number.
type Lookup func(ctx context.Context, app string) (int, error)

// A Plan names the objects to read from a Store.
type Plan struct {
	Objects   int      // the number of objects, so that all can be read
	Apps      []string // applications to look up
	Namespace string   // the namespace of the small store
	SmallApps []string // applications in it
	Changes   *Changes // nil: the objects do not change
	// HeapProfile and CPUProfile name files to write, if set; the CPU profile
	// covers the sync alone or, with Changes, the changes.
	HeapProfile, CPUProfile string
}

// A Result holds the figures of one process. Durations are in nanoseconds, sizes in bytes.
type Result struct {
	Objects     int
	Sync        time.Duration // from connecting until the store holds all objects
	CPU         time.Duration // user and system time during the sync
	Server      time.Duration // the API server's own, which the caller of the process measures
	Heap        uint64        // live heap after the sync and two collections
	PeakRSS     uint64        // the kernel's high-water mark up to then
	Get         time.Duration // median of reading one object by key
	Lookup      time.Duration // median of looking up LookupSize objects
	LookupSize  int
	LookupSmall time.Duration // the same in the store over one namespace
	LookupNone  time.Duration // median of looking up a value that no object has

	Change  time.Duration // CPU time of a change, on average
	Changes int64         // the number of changes
	Shown   int64         // those that the program was shown; others were merged
	RSS     uint64        // resident memory after them
}

// settle is the time between a store's sync and the measurement of its memory. In it the
// memory that only the sync needs can be freed.
const settle = time.Second

// Run measures s.
func Run(ctx context.Context, s Store, plan Plan) (Result, error) {
	var r Result
	if plan.Changes != nil {
		return runChanges(ctx, s, plan)
	}
	stopProfile, err := startCPUProfile(plan.CPUProfile)
	if err != nil {
		return r, err
	}
	cpu, start := cpuTime(), time.Now()
	if err := s.Sync(ctx); err != nil {
		return r, fmt.Errorf("sync: %w", err)
	}
	r.Sync, r.CPU = time.Since(start), cpuTime()-cpu
	stopProfile()

	time.Sleep(settle)
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.Heap = mem.HeapAlloc
	if r.PeakRSS, err = peakRSS(); err != nil {
		return r, err
	}
	if err := writeHeapProfile(plan.HeapProfile); err != nil {
		return r, err
	}

	if r.Objects, err = s.Len(ctx); err != nil {
		return r, fmt.Errorf("count objects: %w", err)
	}
	if s.Get != nil && plan.Objects > 0 {
		keys := make([][2]string, plan.Objects)
		for i := range keys {
			keys[i] = [2]string{fixture.Namespace(i), fixture.Name(i)}
		}
		took, err := medians(20_000, func() error {
			key := keys[rand.IntN(len(keys))]
			return s.Get(ctx, key[0], key[1])
		})
		if err != nil {
			return r, fmt.Errorf("get object: %w", err)
		}
		r.Get = took[0]
	}
	if s.Index != nil && len(plan.Apps) > 0 {
		if err := lookups(ctx, s, plan, &r); err != nil {
			return r, fmt.Errorf("look up by index: %w", err)
		}
	}
	runtime.KeepAlive(s)
	return r, nil
}

// Write sends the result to the program that started this process.
func (r Result) Write(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// lookups measures look-ups in the store and in one over a namespace, in turn.
func lookups(ctx context.Context, s Store, plan Plan, r *Result) error {
	all, err := s.Index(ctx)
	if err != nil {
		return fmt.Errorf("add index: %w", err)
	}
	small, err := s.Small(ctx, plan.Namespace)
	if err != nil {
		return fmt.Errorf("start small store: %w", err)
	}
	in := func(look Lookup, apps []string) func() error {
		return func() error {
			n, err := look(ctx, apps[rand.IntN(len(apps))])
			if err == nil && n != r.LookupSize && r.LookupSize != 0 {
				err = fmt.Errorf("found %d objects, then %d", r.LookupSize, n)
			}
			r.LookupSize = n
			return err
		}
	}
	took, err := medians(1000, in(all, plan.Apps), in(small, plan.SmallApps))
	if err != nil {
		return err
	}
	r.Lookup, r.LookupSmall = took[0], took[1]
	took, err = medians(1000, func() error {
		if n, err := all(ctx, "no such app"); err != nil || n != 0 {
			return fmt.Errorf("found %d objects of no app: %w", n, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.LookupNone = took[0]
	return nil
}

// medians runs the functions in turn, n times each after some runs for warming up. It
// returns the median time of each.
func medians(n int, fs ...func() error) ([]time.Duration, error) {
	took := make([][]time.Duration, len(fs))
	for i := range n + n/10 {
		for f := range fs {
			start := time.Now()
			if err := fs[f](); err != nil {
				return nil, err
			}
			if i >= n/10 {
				took[f] = append(took[f], time.Since(start))
			}
		}
	}
	middle := make([]time.Duration, len(fs))
	for f := range fs {
		slices.Sort(took[f])
		middle[f] = took[f][n/2]
	}
	return middle, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakRSS is this process's VmHWM.
func peakRSS() (uint64, error) { return StatusField(os.Getpid(), "VmHWM") }

// StatusField reads a size from a process's /proc/PID/status.
func StatusField(pid int, field string) (uint64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("read process status: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("read process status: no %s", field)
}

func startCPUProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("start profile: %w", err)
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}

func writeHeapProfile(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create profile: %w", err)
	}
	defer f.Close()
	if err := pprof.Lookup("heap").WriteTo(f, 0); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}
