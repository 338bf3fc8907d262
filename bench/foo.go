package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/bench/measure"
)

const (
	repository = ".."
	fooPackage = "./operators/foo"
	fooImage   = "./operators/foo/image"
	fooCRD     = "operators/foo/deploy/crd.yaml"

	// fooIdle is the time for which foo is idle before its memory is measured.
	fooIdle = 10 * time.Second
)

// measureFoo builds the foo operator and its image as its own build does. It runs foo on
// an API server that has its kind but no objects. It has no peer.
func measureFoo(ctx context.Context, out io.Writer, dir string, cfg *rest.Config, runs int) ([]row, error) {
	fmt.Fprintln(out, "Building and running the foo operator")
	image := row{name: "foo: image, compressed", target: under(7 * megabyte), show: asSize}
	binary := row{name: "foo: binary, stripped", target: under(20 * megabyte), show: asSize}
	sync := row{
		name: "foo: process start to first sync of an empty store", target: under(float64(100 * time.Millisecond)),
		show: asTime,
	}
	idle := row{name: "foo: idle RSS", target: under(20 * megabyte), show: asSize}

	image.ours, image.err = one(weighFooImage(ctx, filepath.Join(dir, "foo.tar")))
	program := filepath.Join(dir, "foo")
	binary.ours, binary.err = one(buildFoo(ctx, program))
	sync.err, idle.err = binary.err, binary.err
	if binary.err == nil {
		if err := installFoo(ctx, cfg); err != nil {
			return nil, fmt.Errorf("install foo's kind: %w", err)
		}
		for range runs {
			start, weight, err := runFoo(ctx, program, filepath.Join(dir, "kubeconfig"))
			if err != nil {
				return nil, fmt.Errorf("run foo: %w", err)
			}
			fmt.Fprintf(out, "  foo: ready after %s, idle RSS %s\n", asTime(start), asSize(weight))
			sync.ours, idle.ours = append(sync.ours, start), append(idle.ours, weight)
		}
	}
	rows := []row{image, binary, sync, idle}
	for _, r := range rows {
		if r.err != nil {
			fmt.Fprintf(out, "  %s: %v\n", r.name, r.err)
		}
	}
	return rows, ctx.Err()
}

// one returns the only value of a figure that is the same in every run.
func one(value float64, err error) ([]float64, error) { return []float64{value}, err }

func weighFooImage(ctx context.Context, tar string) (float64, error) {
	built := goInRepository(ctx, "run", fooImage, "-o", tar)
	n, err := imageSize(tar)
	if err != nil {
		return 0, errors.Join(built, err)
	}
	return float64(n), nil // return the size also if foo's own build found it too large
}

func buildFoo(ctx context.Context, program string) (float64, error) {
	if err := goInRepository(ctx, "build", "-trimpath", "-ldflags=-s -w", "-o", program, fooPackage); err != nil {
		return 0, err
	}
	return fileSize(program)
}

// goInRepository runs the go command in the repository's workspace.
func goInRepository(ctx context.Context, args ...string) error {
	return place{dir: repository}.command(ctx, "go", args...)
}

// installFoo makes sure that the server has foo's kind and serves it.
func installFoo(ctx context.Context, cfg *rest.Config) error {
	data, err := os.ReadFile(filepath.Join(repository, fooCRD))
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &crd.Object); err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return err
	}
	if err := c.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return waitServed(ctx, c, "clux.dev", "v1", "FooList")
}

// runFoo starts foo. It returns the time until foo reports that it is ready, in
// nanoseconds, and its resident memory when it has been idle, in bytes.
func runFoo(ctx context.Context, program, kubeconfig string) (ready, rss float64, err error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, program, "-addr", addr, "-namespace", "*")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stderr = &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	defer func() {
		cancel()
		var exit *exec.ExitError
		if wait := cmd.Wait(); errors.As(wait, &exit) && err == nil {
			err = fmt.Errorf("%w\n%s", wait, tail(stderr.String(), 10))
		}
	}()
	for !isReady(ctx, addr) {
		if ctx.Err() != nil {
			return 0, 0, fmt.Errorf("wait until it is ready: %w\n%s", ctx.Err(), tail(stderr.String(), 10))
		}
		time.Sleep(time.Millisecond)
	}
	ready = float64(time.Since(start))
	select {
	case <-time.After(fooIdle):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	n, err := measure.StatusField(cmd.Process.Pid, "VmRSS")
	return ready, float64(n), err
}

func isReady(ctx context.Context, addr string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
