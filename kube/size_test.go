package kube

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// large is the number of objects in the benchmarks of a store.
const large = 200_000

// largeStore is a store of many Pods without a reflector: the caller uses its sink.
type largeStore struct {
	*Store[corev1.Pod]
	sink    *tableSink
	indexes []*Index[corev1.Pod, string]
	rv      int
}

func podKey(i int) Key { return Key{"default", fmt.Sprintf("web-%d-7d9c5b9f6-x%d", i/3, i)} }

// podRecord returns the record of a version of a Pod.
func (l *largeStore) podRecord(i, version int) wire.Record {
	yes := true
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: podKey(i).Namespace, Name: podKey(i).Name,
			UID:             types.UID(fmt.Sprintf("2f4b2d3e-5a40-4a6c-8d6e-%012d", i)),
			ResourceVersion: fmt.Sprint(version),
			Labels:          map[string]string{"app": fmt.Sprint("app", i%1000), "tier": "web"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprint("web-", i/3),
				UID: types.UID(fmt.Sprint("owner-", i/3)), Controller: &yes,
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:   fmt.Sprint("node", i%2000),
			Containers: []corev1.Container{{Name: "web", Image: "registry.example.com/web:1"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
	}
	msg, err := pod.Marshal()
	if err != nil {
		panic(err)
	}
	rec, err := wire.NewRecorder(l.reads.handle.codec).Record(wire.Raw{Bytes: msg, Protobuf: true})
	if err != nil {
		panic(err)
	}
	return rec
}

// list gives the sink a listing in which every object has a new version.
func (l *largeStore) list() {
	l.sink.begin()
	l.rv++
	for i := range large {
		if err := l.sink.item(l.podRecord(i, l.rv)); err != nil {
			panic(err)
		}
	}
}

func newLargeStore(b *testing.B, indexes int) *largeStore {
	b.Helper()
	pods := For[corev1.Pod](newAPIServer().client(b)).ReadOnly()
	l := &largeStore{}
	var by []indexer
	for range indexes {
		x := IndexBy(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		l.indexes, by = append(l.indexes, x), append(by, x)
	}
	t := newTable(pods.handle, by)
	l.Store, l.sink = &Store[corev1.Pod]{&Informer{table: t}, storeReader{table: t, handle: pods.handle}}, &tableSink{table: t, first: true}
	l.list()
	if err := l.sink.synced("1"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return l
}

func BenchmarkLargeGet(b *testing.B) {
	l := newLargeStore(b, 0)
	for i := 0; b.Loop(); i++ {
		if _, err := l.Get(b.Context(), podKey(i*7919%large)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLargeAll(b *testing.B) {
	l := newLargeStore(b, 0)
	defer used(b)()
	for b.Loop() {
		n := 0
		for range all(l.reads.table.now()) {
			n++
		}
		if n != large {
			b.Fatal(n)
		}
	}
}

func BenchmarkLargeLabeled(b *testing.B) {
	l := newLargeStore(b, 0)
	defer used(b)()
	for b.Loop() {
		n := 0
		for _, err := range l.Labeled(b.Context(), "app=app7") {
			if n++; err != nil {
				b.Fatal(err)
			}
		}
		if n != large/1000 {
			b.Fatal(n)
		}
	}
}

func BenchmarkLargeOwnedBy(b *testing.B) {
	l := newLargeStore(b, 0)
	b.Run("first", func(b *testing.B) {
		defer used(b)()
		for b.Loop() {
			t := newTable(l.reads.table.handle, nil)
			t.content.Store(l.reads.table.now())
			if err := t.build(b.Context(), byOwner{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	_ = l.reads.table.build(b.Context(), byOwner{})
	b.Run("next", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			n := 0
			for range l.OwnedBy(b.Context(), types.UID(fmt.Sprint("owner-", i%(large/3)))) {
				n++
			}
			if n != 3 {
				b.Fatal(n)
			}
		}
	})
}

func BenchmarkLargeIndexBuild(b *testing.B) {
	l := newLargeStore(b, 0)
	defer used(b)()
	for b.Loop() {
		x := IndexBy(Reader[corev1.Pod]{l.reads.handle}, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		if err := l.reads.table.build(b.Context(), x); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLargeEvent measures an event in a store with a number of indexes.
func BenchmarkLargeEvent(b *testing.B) {
	for _, indexes := range []int{0, 2} {
		b.Run(fmt.Sprint(indexes, " indexes"), func(b *testing.B) {
			l := newLargeStore(b, indexes)
			records := make([]wire.Record, 1000)
			for i := range records {
				records[i] = l.podRecord(i*199, 2)
			}
			defer used(b)()
			for i := 0; b.Loop(); i++ {
				rec := records[i%len(records)]
				rec.ResourceVersion = fmt.Sprint(i + 2)
				if err := l.sink.event(eventModified, rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLargeSubscribe(b *testing.B) {
	l := newLargeStore(b, 0)
	defer used(b)()
	for b.Loop() {
		n := 0
		l.reads.table.follow(b.Context(), func(c Change) bool { n++; return c.Type != Synced })
		if n != large+1 {
			b.Fatal(n)
		}
	}
}

// BenchmarkLargeRelist measures a relist in which all objects have changed, with two
// indexes and ten loops over changes. It also measures how long a read and the start of
// another loop take meanwhile. The same is done on a store that nobody writes to: there,
// only the machine, the scheduler and the garbage collector make a read wait.
func BenchmarkLargeRelist(b *testing.B) {
	l := newLargeStore(b, 2)
	quietTable := newTable(l.reads.handle, nil)
	still := &Store[corev1.Pod]{&Informer{table: quietTable}, storeReader{table: quietTable, handle: l.reads.handle}}
	still.reads.table.content.Store(l.reads.table.now())
	close(still.reads.table.synced)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	for range 10 {
		running.Go(func() { l.reads.table.follow(ctx, func(Change) bool { return true }) })
	}
	var busy, quiet waits
	running.Go(func() { busy.measure(ctx, b, l.Store) })
	running.Go(func() { quiet.measure(ctx, b, still) })
	l.list()
	defer used(b)()
	for b.Loop() {
		if err := l.sink.synced(fmt.Sprint(l.rv)); err != nil {
			b.Fatal(err)
		}
		l.list()
	}
	cancel()
	running.Wait()
	busy.report(b, "read")
	quiet.report(b, "still")
}

// waits holds the durations of reads.
type waits struct {
	longest  time.Duration
	late, in int // late reads took longer than lateAfter, out of in reads
}

// lateAfter is longer than any reader should wait for the work of others.
const lateAfter = 20 * time.Millisecond

// measure reads an object of a store and starts a loop over its changes, again and again.
func (w *waits) measure(ctx context.Context, b *testing.B, s *Store[corev1.Pod]) {
	for ; ctx.Err() == nil; w.in++ {
		start := time.Now()
		if _, err := s.Get(context.WithoutCancel(ctx), podKey(w.in*7919%large)); err != nil {
			b.Error(err)
		}
		s.reads.table.follow(ctx, func(Change) bool { return false })
		took := time.Since(start)
		w.longest = max(w.longest, took)
		if took > lateAfter {
			w.late++
		}
		time.Sleep(time.Millisecond) // between two measurements
	}
}

func (w *waits) report(b *testing.B, name string) {
	b.ReportMetric(float64(w.longest.Microseconds())/1000, name+"-longest-ms")
	b.ReportMetric(1e6*float64(w.late)/float64(max(1, w.in)), name+"-late-ppm")
}

// BenchmarkLargeSleepers measures the memory that a sleeping loop holds while all objects
// exist, and after as many objects have come and gone.
func BenchmarkLargeSleepers(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	l := newLargeStore(b, 0)
	const loops = 10
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		asleep := make(chan struct{})
		var running, standing sync.WaitGroup
		before := heap()
		for range loops {
			standing.Add(1)
			running.Go(func() {
				once := sync.OnceFunc(standing.Done)
				l.reads.table.follow(ctx, func(Change) bool { once(); <-asleep; return true })
			})
		}
		standing.Wait()
		held := (heap() - before) / loops / large
		for i := large; i < 2*large; i++ {
			rec := l.podRecord(i, 5)
			_, _ = l.sink.event(eventAdded, rec), l.sink.event(eventDeleted, rec)
		}
		gone := (heap()-before)/loops/large - held
		close(asleep)
		cancel()
		running.Wait()
		b.ReportMetric(held, "B/object")
		b.ReportMetric(gone, "B/gone")
	}
	runtime.KeepAlive(l)
}

// used reports, for each run since it was called, the CPU time and the time that
// goroutines waited for locks. Unlike the elapsed time, they do not depend on how busy
// the machine is.
func used(b *testing.B) (report func()) {
	sample := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	read := func() (cpu, wait float64) {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		metrics.Read(sample)
		return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e6, sample[0].Value.Float64() * 1e3
	}
	cpu, wait := read()
	return func() {
		c, w := read()
		b.ReportMetric((c-cpu)/float64(b.N), "cpu-ms/op")
		b.ReportMetric((w-wait)/float64(b.N), "lock-wait-ms/op")
	}
}

// BenchmarkLargeHeap measures the memory of a store for an object, besides the object's
// bytes.
func BenchmarkLargeHeap(b *testing.B) {
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		l := newLargeStore(b, 0)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)-l.Stats().Bytes)/large, "B/object")
		runtime.KeepAlive(l)
	}
}
