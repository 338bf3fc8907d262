package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/cmd/run"}

func TestMain(m *testing.M) {
	optest.Main(m, &binary)
}

// start runs the command on a cluster of the tests, in a namespace of its own.
func start(t *testing.T, cluster *kubetest.Cluster, namespace string, env ...string) *program.Program {
	t.Helper()
	// The command's own build finds these, so that no test waits for the compiler.
	if _, err := build(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := program.Start(program.Spec{
		Path: binary.Path(t),
		Env: append([]string{
			"CLUSTER=current", "ONCE=", "FARM=", "NAMESPACE=", "TMPDIR=" + t.TempDir(),
			"KUBECONFIG=" + optest.Kubeconfig(t, cluster.Config(), namespace, ""),
		}, env...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background(), time.Minute); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestOnce: the command ends by itself and leaves no sample behind.
func TestOnce(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	namespace := cluster.Namespace(t)
	p := start(t, cluster, namespace, "ONCE=1", "FARM=1")
	optest.Expect(t, p, "run ", "building the operators")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if code, err := p.Wait(ctx); err != nil || code != 0 {
		lines, _ := p.Lines()
		t.Fatalf("status %d, %v\n%q", code, err, lines)
	}
	for _, texts := range [][]string{
		{"book ", "ADDED moby-dick"}, {"book ", "MODIFIED beowulf"}, {"book ", "DELETED beowulf"},
		{"foo ", "store is filled"}, {"run ", "seen: foo is ready"}, {"run ", "seen: foo has metrics"},
		{"run ", "seen: a Deployment that was changed by hand is restored"},
		{"run ", "seen: all letters of a template are written again"},
		{"farm ", "the API server is registered"}, {"run ", "seen: llamas and farm pods are served without a definition"},
		{"kubectl ", "llama.farm.example.com/dora"}, {"kubectl ", "content"}, {"kubectl ", "hungry"},
		{"run ", "seen: shop has a page of its plans"}, {"run ", "the plans of shop in a browser: http://127.0.0.1:"},
		{"run ", "curl http://127.0.0.1:"}, {"run ", "deleted the samples"},
		{"run ", "left out: neon"},
	} {
		optest.Expect(t, p, texts...)
	}
	client := optest.Client(t, cluster.Config())
	for _, m := range optest.Read(t, "book/sample.yaml", "foo/sample.yaml", "echo/sample.yaml", "letter/sample.yaml", "shop/sample.yaml") {
		if o, err := install.Get(t.Context(), client, namespace, m); err != nil || o != nil {
			t.Errorf("%s is left behind: %v", m, err)
		}
	}
}

// TestSignals ends the running command, in order and at once.
func TestSignals(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			p := start(t, cluster, cluster.Namespace(t))
			children := make(map[string]int)
			for _, name := range []string{"book", "foo", "echo", "letter", "shop"} {
				children[name] = childOf(t, p, name)
			}
			optest.Expect(t, p, "run ", "farm is left out")
			optest.Expect(t, p, "run ", "Ctrl-C ends it")
			if err := p.Signal(sig); err != nil {
				t.Fatal(err)
			}
			want := 0
			if sig == syscall.SIGKILL {
				want = -1
			} else {
				optest.Expect(t, p, "ended; nothing is left running")
			}
			if code := optest.ExpectEnd(t, p); code != want {
				t.Errorf("status %d", code)
			}
			kubetest.Eventually(t, "all operators have ended", func() error {
				maps.DeleteFunc(children, func(_ string, pid int) bool { return !alive(pid) })
				if len(children) > 0 {
					return fmt.Errorf("left are %v", children)
				}
				return nil
			})
		})
	}
}

// TestOthersSamples creates an object with the name of a sample.
func TestOthersSamples(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	namespace := cluster.Namespace(t)
	client := optest.Client(t, cluster.Config())
	samples := optest.Read(t, "foo/sample.yaml")
	optest.Apply(t, client, namespace, append(optest.Read(t, "foo/deploy/crd.yaml"), samples[0])...)
	p := start(t, cluster, namespace, "ONCE=1")
	optest.Expect(t, p, "there is a Foo good in namespace "+namespace+" that this command did not create")
	if code := optest.ExpectEnd(t, p); code != 1 {
		t.Errorf("status %d", code)
	}
	if o, err := install.Get(t.Context(), client, namespace, samples[0]); err != nil || o == nil {
		t.Errorf("it was deleted: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	for _, test := range []struct {
		env  []string
		want string
		code int
	}{
		{[]string{"CLUSTER=other"}, "CLUSTER=other: want \"current\"", 2},
		{[]string{"CLUSTER=current", "KUBECONFIG=/nonexistent"}, "/nonexistent does not exist", 1},
	} {
		p, err := program.Start(program.Spec{Path: binary.Path(t), Env: test.env})
		if err != nil {
			t.Fatal(err)
		}
		optest.Expect(t, p, "run: ", test.want)
		if code := optest.ExpectEnd(t, p); code != test.code {
			t.Errorf("%s: status %d", test.env, code)
		}
	}
}

// childOf returns the operator's process, as the command's output names it.
func childOf(t *testing.T, p *program.Program, name string) int {
	t.Helper()
	line := optest.Expect(t, p, "run ", fmt.Sprintf("%s runs, process ", name))
	pid, err := strconv.Atoi(regexp.MustCompile(`\d+$`).FindString(line))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// alive reports whether a process runs. A process that has ended and that its parent has
// not yet waited for does not run.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	return !regexp.MustCompile(`\) Z `).Match(stat)
}
