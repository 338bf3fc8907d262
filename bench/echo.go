package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// echoIdle is the time for which an operator is idle before its memory is measured.
	echoIdle = 10 * time.Second
	// echoCalm is the time without requests after which an operator has finished.
	echoCalm = 5 * time.Second
	// echoChanges is the number of Echoes that are changed, one after another. echoPause
	// is the time that the control plane has for each of them.
	echoChanges = 200
	echoPause   = 250 * time.Millisecond
	// echoLimit is the longest time of one run.
	echoLimit = 30 * time.Minute
)

// The names of the two operators, and of their programs.
const (
	peerEcho = "peerecho"
	oursEcho = "echo"
)

// echoResult is the result of one run of an operator. Durations are in nanoseconds, sizes
// in bytes. The fields after ready are set only by a run at size.
type echoResult struct {
	start float64 // from the process's start to its first write request about an Echo
	idle  float64 // resident memory with one Echo

	ready    float64   // from the first Echo until the last one is ready
	cpu      float64   // user and system time of the operator until it was done with them
	peak     float64   // its high-water mark of resident memory up to then
	requests float64   // requests that it sent, except watches
	leases   float64   // the requests among them that were for its lease
	answers  []float64 // from the confirmation of each change to its answer
	fromSent []float64 // from the sending of each change to its answer
}

// echoResults are the runs of one side.
type echoResults []echoResult

// values returns the values of one figure. Runs that did not measure it have none.
func (r echoResults) values(of func(echoResult) float64) []float64 {
	var values []float64
	for _, one := range r {
		if v := of(one); v != 0 {
			values = append(values, v)
		}
	}
	return values
}

// echoBench measures operators on one cluster.
type echoBench struct {
	out    io.Writer
	dir    string
	proxy  *proxy
	echoes echoes
}

// measureEcho runs both operators in turn on a cluster with controllers and simulated
// nodes: o.runs times with a single Echo, then o.echoRuns times with o.echoes. The
// programs are in dir.
func measureEcho(
	ctx context.Context, out io.Writer, dir string, cfg *rest.Config, o options,
) (map[string]echoResults, error) {
	results := map[string]echoResults{}
	p, err := startProxy(cfg)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := writeKubeconfig(p.config, filepath.Join(dir, "kubeconfig-proxy")); err != nil {
		return nil, err
	}
	b := echoBench{out: out, dir: dir, proxy: p}
	if b.echoes, err = openEchoes(ctx, out, cfg); err != nil {
		return nil, err
	}
	defer func() { _ = b.echoes.close(context.WithoutCancel(ctx)) }() // on an error the namespace stays
	if err := b.install(ctx); err != nil {
		return nil, fmt.Errorf("install the kind Echo: %w", err)
	}
	sizes := slices.Repeat([]int{1}, o.runs)
	if o.echoes > 1 {
		sizes = append(sizes, slices.Repeat([]int{o.echoes}, o.echoRuns)...)
	}
	for _, n := range sizes {
		for _, name := range []string{peerEcho, oursEcho} {
			r, err := b.run(ctx, name, n)
			if err != nil {
				return nil, fmt.Errorf("measure %s with %d Echoes: %w", name, n, err)
			}
			results[name] = append(results[name], r)
		}
	}
	return results, nil
}

// install makes our operator install its kind, so that both sides have the same kind. Our
// operator then runs one Echo, which also warms the server up.
func (b echoBench) install(ctx context.Context) (err error) {
	op, err := startOperator(ctx, b.dir, oursEcho, filepath.Join(b.dir, "kubeconfig-proxy"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, op.stop()) }()
	if err := waitServed(ctx, b.echoes.client, "example.com", "v1", "EchoList"); err != nil {
		return op.failure(err)
	}
	if err := b.echoes.create(ctx, 0, 1); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := b.echoes.awaitReady(wait, 1); err != nil {
		return op.failure(err)
	}
	return b.echoes.deleteAll(ctx)
}

// run is one run of an operator. It starts and ends without Echoes.
func (b echoBench) run(ctx context.Context, name string, n int) (r echoResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, echoLimit)
	defer cancel()
	fmt.Fprintf(b.out, "  %s with %d Echoes\n", name, n)
	if err := b.echoes.create(ctx, 0, 1); err != nil {
		return r, err
	}
	mark := b.proxy.mark()
	op, err := startOperator(ctx, b.dir, name, filepath.Join(b.dir, "kubeconfig-proxy"))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, op.stop()) }()

	wait, cancelWait := context.WithTimeout(ctx, time.Minute)
	defer cancelWait()
	first, err := b.proxy.await(wait, mark, func(q request) bool { return q.writes() && q.within(b.echoes.namespace) })
	if err != nil {
		return r, op.failure(err)
	}
	r.start = float64(first.at.Sub(op.started))
	if err := b.echoes.awaitReady(wait, 1); err != nil {
		return r, op.failure(err)
	}
	if err := sleep(ctx, echoIdle); err != nil {
		return r, err
	}
	rss, err := op.rss()
	if err != nil {
		return r, err
	}
	r.idle = float64(rss)
	fmt.Fprintf(b.out, "    first write after %s, idle RSS %s\n", asTime(r.start), asSize(r.idle))
	if n > 1 {
		if err := b.fill(ctx, op, n, &r); err != nil {
			return r, op.failure(err)
		}
		if err := b.change(ctx, n, &r); err != nil {
			return r, op.failure(err)
		}
	}
	return r, b.echoes.deleteAll(ctx)
}

// fill creates the Echoes up to n and waits until all are ready and the operator is calm.
func (b echoBench) fill(ctx context.Context, op *operator, n int, r *echoResult) error {
	before, err := op.cpu()
	if err != nil {
		return err
	}
	mark, start := b.proxy.mark(), time.Now()
	if err := b.echoes.create(ctx, 1, n); err != nil {
		return err
	}
	if err := b.echoes.awaitReady(ctx, n); err != nil {
		return err
	}
	r.ready = float64(time.Since(start))
	if err := b.calm(ctx); err != nil {
		return err
	}
	after, err := op.cpu()
	if err != nil {
		return err
	}
	peak, err := op.peakRSS()
	if err != nil {
		return err
	}
	requests, _ := b.proxy.since(mark)
	r.cpu, r.peak, r.requests = float64(after-before), float64(peak), float64(counted(requests))
	r.leases = float64(leases(requests))
	fmt.Fprintf(b.out, "    %d Echoes ready after %s, CPU %s, peak RSS %s, %s\n",
		n, asTime(r.ready), asTime(r.cpu), asSize(r.peak), summary(requests))
	return nil
}

// calm waits until the operator has sent nothing about Echoes for a while.
func (b echoBench) calm(ctx context.Context) error {
	for {
		wait, cancel := context.WithTimeout(ctx, echoCalm)
		_, err := b.proxy.await(
			wait, b.proxy.mark(), func(q request) bool { return q.within(b.echoes.namespace) && !q.watch },
		)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil //nolint:nilerr // nothing came, as expected
		}
	}
}

// change scales some of n Echoes, one at a time, and measures the time to the answers.
func (b echoBench) change(ctx context.Context, n int, r *echoResult) error {
	start := b.proxy.mark()
	for _, i := range spread(echoChanges, n) {
		name := echoName(i)
		mark := b.proxy.mark()
		sent, confirmed, err := b.echoes.scale(ctx, name, 2)
		if err != nil {
			return fmt.Errorf("change Echo %s: %w", name, err)
		}
		wait, cancel := context.WithTimeout(ctx, time.Minute)
		answer, err := b.proxy.await(wait, mark, func(q request) bool {
			return q.writes() && q.names(b.echoes.namespace, "deployments", name)
		})
		cancel()
		if err != nil {
			return fmt.Errorf("see Echo %s answered: %w", name, err)
		}
		r.answers = append(r.answers, float64(answer.at.Sub(confirmed)))
		r.fromSent = append(r.fromSent, float64(answer.at.Sub(sent)))
		if err := sleep(ctx, echoPause); err != nil {
			return err
		}
	}
	requests, _ := b.proxy.since(start)
	fmt.Fprintf(
		b.out, "    a change is answered after p50 %s, p99 %s; from sending it p50 %s, p99 %s; %d changes took %s\n",
		asTime(quantile(r.answers, 0.5)), asTime(quantile(r.answers, 0.99)), asTime(quantile(r.fromSent, 0.5)),
		asTime(quantile(r.fromSent, 0.99)), len(r.answers), summary(requests),
	)
	return nil
}

// spread returns up to k different numbers below n, evenly spread.
func spread(k, n int) []int {
	k = min(k, n)
	numbers := make([]int, k)
	for i := range numbers {
		numbers[i] = i * n / k
	}
	return numbers
}

// quantile returns the least value that a share of all values does not exceed, or 0 if
// there are no values.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
