package lease

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// candidateVariable tells the test binary to be a candidate. It holds a kubeconfig, a
// namespace, an identity, a duration and whether the candidate takes over.
const candidateVariable = "PINTLE_TEST_CANDIDATE"

// exitLost is the exit status of a candidate that has lost the lease.
const exitLost = 3

// runCandidate writes a ConfigMap every 20 ms while it holds the lease. The server's
// resourceVersions then give the order of all writes.
func runCandidate() int {
	args := strings.Split(os.Getenv(candidateVariable), "|")
	namespace, identity := args[1], args[2]
	duration, err := time.ParseDuration(args[3])
	if err != nil {
		return 1
	}
	client, err := kube.Config{Kubeconfig: args[0]}.Connect()
	if err != nil {
		slog.Error("connect", "error", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	maps := kube.For[corev1.ConfigMap](client).In(namespace)
	l := Lease{
		Client: client, Namespace: namespace, Name: "one", Identity: identity, Duration: duration,
		TakeOver: args[4] == "true",
	}
	err = l.Run(ctx, func(ctx context.Context) error {
		fmt.Println("acts")
		for i := 0; ctx.Err() == nil; i++ {
			o := new(corev1.ConfigMap)
			o.Name = fmt.Sprintf("%s-%d", identity, i)
			if _, err := maps.Create(ctx, o); err != nil {
				slog.Warn("write", "error", err)
			}
			time.Sleep(20 * time.Millisecond) // the pace of its writes
		}
		fmt.Println("ends")
		return nil
	})
	switch {
	case errors.Is(err, ErrLost):
		slog.Info("lost", "error", err)
		return exitLost
	case err != nil:
		slog.Error("run", "error", err)
		return 1
	}
	return 0
}

// candidate is a process of the test.
type candidate struct {
	*exec.Cmd
	t     *testing.T
	said  chan string // closed when the process has ended
	ended error
}

func startCandidate(t *testing.T, cluster *kubetest.Cluster, namespace string, l Lease) *candidate {
	t.Helper()
	c := &candidate{Cmd: exec.Command(os.Args[0]), t: t, said: make(chan string, 10)}
	args := []string{cluster.Kubeconfig(), namespace, l.Identity, l.Duration.String(), strconv.FormatBool(l.TakeOver)}
	c.Env = append(os.Environ(), candidateVariable+"="+strings.Join(args, "|"))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.said <- lines.Text()
		}
		c.ended = c.Wait()
	}()
	t.Cleanup(func() {
		c.signal(syscall.SIGCONT)
		c.signal(syscall.SIGKILL)
		for range c.said {
			continue // until the process has ended
		}
	})
	return c
}

func (c *candidate) signal(s syscall.Signal) {
	if err := c.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Errorf("signal a candidate: %v", err)
	}
}

// says waits for a line of the candidate's output.
func (c *candidate) says(want string) {
	c.t.Helper()
	select {
	case line, ok := <-c.said:
		if !ok || line != want {
			c.t.Fatalf("the candidate says %q, want %q (%v)", line, want, c.ended)
		}
	case <-time.After(2 * time.Minute):
		c.t.Fatalf("the candidate does not say %q", want)
	}
}

// code waits until the process has ended.
func (c *candidate) code() int {
	c.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case _, ok := <-c.said:
			if !ok {
				return c.ProcessState.ExitCode()
			}
		case <-deadline:
			c.t.Fatal("the candidate does not end")
		}
	}
}

// writers returns the writers in the server's order, without repetitions.
func writers(t *testing.T, client *kube.Client, namespace string) []string {
	t.Helper()
	type written struct {
		rv  int
		who string
	}
	var all []written
	for o, err := range kube.For[corev1.ConfigMap](client).In(namespace).List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if who, _, ok := strings.Cut(o.Name, "-"); ok && len(who) == 1 {
			rv, err := strconv.Atoi(o.ResourceVersion)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, written{rv, who})
		}
	}
	slices.SortFunc(all, func(a, b written) int { return cmp.Compare(a.rv, b.rv) })
	var order []string
	for _, w := range all {
		order = append(order, w.who)
	}
	return slices.Compact(order)
}

// wrote waits until a candidate has written.
func wrote(t *testing.T, client *kube.Client, namespace, who string) {
	t.Helper()
	kubetest.Eventually(t, who+" has written", func() error {
		if all := writers(t, client, namespace); !slices.Contains(all, who) {
			return fmt.Errorf("the writers are %q", all)
		}
		return nil
	})
}

// realServer returns a real server and a client of it.
func realServer(t *testing.T) (*kubetest.Cluster, *kube.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	client, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return cluster, client
}

// TestProcesses has real processes compete on a real server.
func TestProcesses(t *testing.T) {
	t.Parallel()
	cluster, client := realServer(t)
	for name, test := range map[string]struct {
		duration time.Duration
		disturb  func(t *testing.T, a, b *candidate)
	}{
		"stopped for longer than the lease": {3 * time.Second, func(t *testing.T, a, b *candidate) {
			a.signal(syscall.SIGSTOP)
			b.says("acts")
			time.Sleep(time.Second) // b writes, and then a wakes up
			a.signal(syscall.SIGCONT)
			a.says("ends")
			if code := a.code(); code != exitLost {
				t.Errorf("a has ended with status %d", code)
			}
		}},
		"killed": {3 * time.Second, func(t *testing.T, a, b *candidate) {
			a.signal(syscall.SIGKILL)
			killed := time.Now()
			b.says("acts")
			t.Logf("b acts %s after a was killed", time.Since(killed))
		}},
		"ended": {5 * time.Minute, func(t *testing.T, a, b *candidate) {
			a.signal(syscall.SIGTERM)
			ended := time.Now()
			a.says("ends")
			b.says("acts")
			took := time.Since(ended)
			t.Logf("b acts %s after a was told to end", took)
			if took > time.Minute {
				t.Error("b has waited too long")
			}
			if code := a.code(); code != 0 {
				t.Errorf("a has ended with status %d", code)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			a := startCandidate(t, cluster, namespace, Lease{Identity: "a", Duration: test.duration})
			a.says("acts")
			b := startCandidate(t, cluster, namespace, Lease{Identity: "b", Duration: test.duration})
			time.Sleep(time.Second) // b sees the holder
			wrote(t, client, namespace, "a")
			test.disturb(t, a, b)
			wrote(t, client, namespace, "b")
			time.Sleep(500 * time.Millisecond) // a may not write any more
			if got := writers(t, client, namespace); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("writers in the server's order: %s", got)
			}
		})
	}
}

// TestProcessesTakeOver has a developer's process take the lease from a deployed one on a
// real server, and give it back by ending or by being killed. The deployed process lives
// on.
func TestProcessesTakeOver(t *testing.T) {
	t.Parallel()
	cluster, client := realServer(t)
	namespace := cluster.Namespace(t)
	a := startCandidate(t, cluster, namespace, Lease{Identity: "a", Duration: 10 * time.Second})
	a.says("acts")
	wrote(t, client, namespace, "a")
	want := []string{"a"}
	for who, how := range map[string]syscall.Signal{"d": syscall.SIGTERM, "e": syscall.SIGKILL} {
		d := startCandidate(t, cluster, namespace, Lease{Identity: who, Duration: 10 * time.Second, TakeOver: true})
		a.says("ends")
		d.says("acts")
		wrote(t, client, namespace, who)
		d.signal(how)
		a.says("acts")
		want = append(want, who, "a")
		kubetest.Eventually(t, "a has written again", func() error {
			if got := writers(t, client, namespace); !slices.Equal(got, want) {
				return fmt.Errorf("writers in the server's order: %s, want %s", got, want)
			}
			return nil
		})
	}
	a.signal(syscall.SIGTERM)
	if code := a.code(); code != 0 {
		t.Errorf("a has ended with status %d", code)
	}
}
