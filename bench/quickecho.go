package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// operators runs each Echo operator once on a cluster with controllers and simulated
// nodes, and returns their idle memory.
func (q quick) operators(ctx context.Context) (idle map[string][]float64, err error) {
	cfg, stopCluster, err := startCluster(ctx, q.out, q.options, wholeCluster)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopCluster()) }()
	if err := writeKubeconfig(cfg, filepath.Join(q.dir, "kubeconfig-echo")); err != nil {
		return nil, err
	}
	e, err := openEchoes(ctx, q.out, cfg)
	if err != nil {
		return nil, err
	}
	idle = map[string][]float64{}
	for _, name := range []string{peerEcho, kubersEcho, oursEcho} {
		if name == kubersEcho && !q.cargo {
			continue
		}
		rss, err := q.operator(ctx, e, name)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", name, err)
		}
		fmt.Fprintf(q.out, "  %s made its Deployment ready; idle memory %s\n", name, size(rss))
		idle[name] = []float64{float64(rss)}
	}
	return idle, nil
}

// operator runs one operator on a server without the kind, and leaves it so. It returns
// the operator's resident memory.
func (q quick) operator(ctx context.Context, e echoes, name string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if name == peerEcho { // the others install the kind themselves
		if err := e.define(ctx, peerEchoCRD); err != nil {
			return 0, err
		}
	}
	rss, err := q.runOne(ctx, e, name)
	if err != nil {
		return 0, err
	}
	return rss, e.undefine(ctx)
}

// runOne starts an operator, gives it one Echo, checks the objects that it makes, and measures
// its resident memory when it is idle. Then it deletes the Echo and stops the operator.
func (q quick) runOne(ctx context.Context, e echoes, name string) (rss uint64, err error) {
	op, err := startOperator(ctx, q.dir, name, filepath.Join(q.dir, "kubeconfig-echo"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, op.stop()) }()
	if err := waitServed(ctx, e.client, "example.com", "v1", "EchoList"); err != nil {
		return 0, op.failure(err)
	}
	if err := e.create(ctx, 0, 1); err != nil {
		return 0, err
	}
	if err := e.awaitReady(ctx, 1); err != nil {
		return 0, op.failure(err)
	}
	if err := e.verify(ctx, echoName(0)); err != nil {
		return 0, op.failure(err)
	}
	if err := sleep(ctx, echoIdle); err != nil {
		return 0, err
	}
	if rss, err = op.rss(); err != nil {
		return 0, op.failure(err)
	}
	if err := e.deleteAll(ctx); err != nil {
		return 0, op.failure(err)
	}
	return rss, nil
}
