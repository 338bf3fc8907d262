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

	// fooIdle is how long foo is left alone before it is weighed.
	fooIdle = 10 * time.Second
)

// fooFigure is a promise about the foo operator; it has no peer.
type fooFigure struct {
	name  string
	value float64
	limit float64
	show  func(float64) string
	err   error // why there is no value
}

func (f fooFigure) shown() string {
	if f.err != nil {
		return "not built"
	}
	return f.show(f.value)
}

func (f fooFigure) verdict() string {
	if f.err != nil {
		return "not built"
	}
	return verdict(true, f.value < f.limit)
}

// measureFoo builds the foo operator and its image as its own build does, and
// runs it on an API server that has its kind but no objects.
func measureFoo(ctx context.Context, out io.Writer, dir string, cfg *rest.Config, runs int) ([]fooFigure, error) {
	fmt.Fprintln(out, "Building and running the foo operator")
	bytes := func(v float64) string { return size(uint64(v)) }
	nanos := func(v float64) string { return duration(time.Duration(v)) }
	image := fooFigure{name: "foo: image, compressed", limit: 7 * megabyte, show: bytes}
	binary := fooFigure{name: "foo: binary, stripped", limit: 20 * megabyte, show: bytes}
	sync := fooFigure{name: "foo: process start to first sync of an empty store", limit: float64(100 * time.Millisecond), show: nanos}
	idle := fooFigure{name: "foo: idle RSS", limit: 20 * megabyte, show: bytes}

	image.value, image.err = weighFooImage(ctx, filepath.Join(dir, "foo.tar"))
	program := filepath.Join(dir, "foo")
	binary.value, binary.err = buildFoo(ctx, program)
	sync.err, idle.err = binary.err, binary.err
	if binary.err == nil {
		if err := installFoo(ctx, cfg); err != nil {
			return nil, fmt.Errorf("install foo's kind: %w", err)
		}
		var starts, weights []float64
		for range runs {
			start, weight, err := runFoo(ctx, program, filepath.Join(dir, "kubeconfig"))
			if err != nil {
				return nil, fmt.Errorf("run foo: %w", err)
			}
			fmt.Fprintf(out, "  foo: ready after %s, idle RSS %s\n", nanos(start), bytes(weight))
			starts, weights = append(starts, start), append(weights, weight)
		}
		sync.value, _ = median(starts)
		idle.value, _ = median(weights)
	}
	figures := []fooFigure{image, binary, sync, idle}
	for _, f := range figures {
		if f.err != nil {
			fmt.Fprintf(out, "  %s: %v\n", f.name, f.err)
		}
	}
	return figures, ctx.Err()
}

func weighFooImage(ctx context.Context, tar string) (float64, error) {
	built := goInRepository(ctx, "run", fooImage, "-o", tar)
	n, err := imageSize(tar)
	if err != nil {
		return 0, errors.Join(built, err)
	}
	return float64(n), nil // also of one that its own build found too large
}

func buildFoo(ctx context.Context, program string) (float64, error) {
	if err := goInRepository(ctx, "build", "-trimpath", "-ldflags=-s -w", "-o", program, fooPackage); err != nil {
		return 0, err
	}
	info, err := os.Stat(program)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()), nil
}

// goInRepository runs the go command in the repository's workspace.
func goInRepository(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = repository
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GOWORK=") && !strings.HasPrefix(variable, "PWD=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, tail(string(output), 5))
	}
	return nil
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

// runFoo starts foo and gives the time until it says that it is ready, in
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
