package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
)

// mostAtRest is the part of a core that the operator may take with 200 endpoints at rest, in percent.
const mostAtRest = 1

// BenchmarkAtRest measures the operator with 200 endpoints that run and of which nothing changes. It
// takes three minutes, and fails if the operator writes, or takes more of a core than it may. Another
// process answers for the computes, over TCP. The metric of its time is not the operator's.
func BenchmarkAtRest(b *testing.B) {
	const many = 200
	w := newWorld(b)
	seen := new(writeCount)
	w.requests = seen.wrap
	w.operate()
	w.manyReady(many)

	answers := map[string]any{}
	for pod, err := range w.pods.List(b.Context()) {
		w.ok(err)
		is := w.outside.process(pod.UID)
		answers[strings.TrimSuffix(pod.Name, "-0")] = is.answer()
	}
	others := w.answering(answers)
	transport, connections := cluster.Transport(), new(atomic.Int64)
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		connections.Add(1)
		return new(net.Dialer).DialContext(ctx, network, others.address)
	}
	b.Cleanup(transport.CloseIdleConnections)
	w.outside.set(func() { w.outside.elsewhere = transport })
	w.eventually("each compute has a connection", func() bool { return connections.Load() >= many })

	seen.n.Store(0)
	connections.Store(0)
	begin, before := time.Now(), processorTime(b)
	for b.Loop() {
		time.Sleep(2 * time.Minute) // its cost is measured
	}
	share := 100 * float64(processorTime(b)-before) / float64(time.Since(begin))
	for unit, value := range map[string]float64{
		"%core": share, "%core-of-answers": others.end(), "writes": float64(seen.n.Load()),
		"connections": float64(connections.Load()), // that were made
	} {
		b.ReportMetric(value, unit)
		b.Logf("%.2f %s", value, unit) // also when it fails
	}
	if share > mostAtRest {
		b.Errorf("%d endpoints at rest cost %.2f%% of a core, want %d%% at most", many, share, mostAtRest)
	}
	if n := seen.n.Load(); n > 0 {
		b.Errorf("%d endpoints at rest cost %d writes, the last was %s", many, n, seen.last.Load())
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// answersOnly is the variable of the environment by which this test is a process that answers for
// computes.
const answersOnly = "NEON_ANSWERS_ONLY"

// answerAll reads answers by the names of hosts, and gives them until its input ends.
func answerAll() {
	var answers map[string]json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&answers); err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	give := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(r.Host, ".")
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(answers[name]) // the operator sees it
	})
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: give}
	go func() { log.Fatal(server.Serve(l)) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// others are a process that answers for computes.
type others struct {
	address string
	// end ends it, and returns its part of a core in percent.
	end func() float64
}

// answering starts a process that gives answers, by the names of hosts.
func (w *world) answering(answers map[string]any) others {
	w.Helper()
	begin := time.Now()
	cmd := exec.Command(os.Args[0]) // #nosec G204,G702 -- this test itself
	cmd.Env, cmd.Stderr = append(os.Environ(), answersOnly+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	w.ok(err)
	out, err := cmd.StdoutPipe()
	w.ok(err)
	w.ok(cmd.Start())
	w.Cleanup(func() {
		in.Close()
		if cmd.ProcessState == nil {
			_ = cmd.Wait() // the test has failed before
		}
	})
	w.ok(json.NewEncoder(in).Encode(answers))
	is := others{end: func() float64 {
		in.Close()
		w.ok(cmd.Wait())
		return 100 * float64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()) / float64(time.Since(begin))
	}}
	_, err = fmt.Fscan(out, &is.address)
	w.ok(err)
	return is
}
