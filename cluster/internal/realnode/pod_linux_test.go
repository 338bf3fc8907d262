package realnode

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/cluster/image"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kube/pod"
	"github.com/pintle-go/pintle/kubetest"
)

const toolImage = "pintle.test/tool:v1"

// TestPods tests package kube/pod where only a kubelet can answer.
func TestPods(t *testing.T) {
	requireRealNode(t)
	c := startCluster(t, t.TempDir(), &Node{})
	defer c.explain()
	if _, err := LoadMain(t.Context(), c.dir, image.Options{Package: "./testdata/tool", Name: toolImage}); err != nil {
		t.Fatal(err)
	}
	client, err := kube.Config{Kubeconfig: filepath.Join(c.dir, "kubeconfig")}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	pods := kube.For[corev1.Pod](client).In("default")
	kubetest.Eventually(t, "the pod is made", func() error {
		_, err := pods.Apply(ctx, toolPod())
		return err
	})
	if _, err := pods.Until(
		ctx, "tool", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning },
	); err != nil {
		t.Fatal(err)
	}

	t.Run("logs", func(t *testing.T) {
		lines := int64(2)
		kubetest.Eventually(t, "two lines are there", func() error {
			r, err := pod.Logs(ctx, pods, "tool", corev1.PodLogOptions{TailLines: &lines})
			if err != nil {
				return err
			}
			defer r.Close()
			text, err := io.ReadAll(r)
			if err == nil && (strings.Count(string(text), "\n") != 2 || !strings.HasPrefix(string(text), "line ")) {
				err = fmt.Errorf("the logs are %q", text)
			}
			return err
		})
	})
	t.Run("logs followed", func(t *testing.T) {
		following, stop := context.WithCancel(ctx)
		r, err := pod.Logs(following, pods, "tool", corev1.PodLogOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		s := bufio.NewScanner(r)
		for i := range 5 {
			if !s.Scan() || s.Text() != fmt.Sprint("line ", i) {
				t.Fatalf("%v: %q", s.Err(), s.Text())
			}
		}
		stop()
		for s.Scan() {
		}
		if !errors.Is(s.Err(), context.Canceled) {
			t.Errorf("ended by its context: %v", s.Err())
		}
	})
	t.Run("exec", func(t *testing.T) { execTool(t, ctx, pods) })
	t.Run("terminal", func(t *testing.T) {
		sizes := make(chan pod.Size, 2)
		sizes <- pod.Size{Width: 99, Height: 30}
		out := until{text: "99x30", seen: func() { sizes <- pod.Size{Width: 101, Height: 31} }}
		err := pod.Exec(
			ctx, pods, "tool",
			[]string{"/tool", "size"}, pod.Streams{Stdin: neverEnding(t), Stdout: &out, TTY: true, Resize: sizes},
		)
		if err != nil || !strings.HasSuffix(strings.TrimSpace(out.String()), "101x31") ||
			!strings.Contains(out.String(), "99x30") {
			t.Errorf("%v: %q", err, &out)
		}
	})
	t.Run("attach", func(t *testing.T) {
		attached, stop := context.WithCancel(ctx)
		defer stop()
		r, w := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- pod.Attach(attached, pods, "tool", pod.Streams{Stdin: io.MultiReader(strings.NewReader("me\n"), neverEnding(t)), Stdout: w})
			w.Close()
		}()
		for s := bufio.NewScanner(r); ; {
			if !s.Scan() {
				t.Fatalf("it was not heard: %v", <-ended)
			}
			if s.Text() == "heard me" {
				break
			}
		}
		stop()
		go func() { _, _ = io.Copy(io.Discard, r) }() // until w closes
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended by its context: %v", err)
		}
	})
	t.Run("port-forward", func(t *testing.T) { forwardTool(t, ctx, pods) })
	t.Run("by SPDY", func(t *testing.T) {
		config := client.Config().Rest
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noWebSockets{next} })
		old, err := kube.Config{Rest: config}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		pods := kube.For[corev1.Pod](old).In("default")
		execTool(t, ctx, pods)
		forwardTool(t, ctx, pods)
	})
	t.Run("evict", func(t *testing.T) {
		following, err := pod.Logs(ctx, pods, "tool", corev1.PodLogOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		defer following.Close()
		if err := pod.Evict(ctx, pods, "tool", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(following)
		if err != nil || !strings.HasSuffix(string(text), "farewell\n") {
			t.Errorf("the log ends with the container: %v, %q", err, text[max(0, len(text)-100):])
		}
		if err := pods.UntilGone(ctx, "tool"); err != nil {
			t.Error(err)
		}
	})
	c.end()
	client.Close()
	// client-go's pings of a closed connection end with the next ping.
	kubetest.Eventually(t, "no goroutine is left", func() error { return goleak.Find() })
}

// noWebSockets makes websockets fail, as a proxy does that does not support them.
type noWebSockets struct{ next http.RoundTripper }

func (n noWebSockets) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet &&
		(strings.HasSuffix(req.URL.Path, "/exec") || strings.HasSuffix(req.URL.Path, "/portforward")) {
		return nil, errors.New("proxy: unknown scheme: https")
	}
	return n.next.RoundTrip(req)
}

func (n noWebSockets) WrappedRoundTripper() http.RoundTripper { return n.next }

func toolPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "tool"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "tool", Image: toolImage, ImagePullPolicy: corev1.PullNever, Stdin: true}},
		},
	}
}

// neverEnding is a stdin without data until the test ends.
func neverEnding(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r
}

// until calls seen when a text has been written to it.
type until struct {
	bytes.Buffer
	text string
	seen func()
}

func (u *until) Write(p []byte) (int, error) {
	had := strings.Contains(u.String(), u.text)
	n, err := u.Buffer.Write(p)
	if !had && strings.Contains(u.String(), u.text) {
		u.seen()
	}
	return n, err
}

func execTool(t *testing.T, ctx context.Context, pods kube.Resource[corev1.Pod]) {
	var out, errs bytes.Buffer
	text := strings.Repeat("to and fro ", 20_000)
	err := pod.Exec(
		ctx, pods, "tool",
		[]string{"/tool", "cat"}, pod.Streams{Stdin: strings.NewReader(text), Stdout: &out, Stderr: &errs},
	)
	if err != nil || out.String() != text || errs.String() != fmt.Sprintln(len(text), "bytes") {
		t.Errorf("%v: %d bytes came back, stderr %q", err, out.Len(), &errs)
	}

	err = pod.Exec(ctx, pods, "tool", []string{"/tool", "exit", "7"}, pod.Streams{Stdout: &out})
	var exit *pod.ExitError
	if !errors.As(err, &exit) || exit.Code != 7 ||
		err.Error() != "exec Pod/exec default/tool: the command exited with status 7" {
		t.Errorf("got error %v", err)
	}
	err = pod.Exec(ctx, pods, "tool", []string{"/nonsense"}, pod.Streams{Stdout: &out})
	if err == nil || errors.As(err, &exit) && exit.Code == 0 {
		t.Errorf("a program that is not there: %v", err)
	}

	hanging, stop := context.WithTimeout(ctx, 10*time.Second) // long enough for the request to begin
	defer stop()
	out.Reset()
	begun := time.Now()
	err = pod.Exec(hanging, pods, "tool", []string{"/tool", "hang"}, pod.Streams{Stdout: &out})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > time.Minute || out.String() != "hangs\n" {
		t.Errorf("after %s: %v, %q", time.Since(begun), err, &out)
	}
}

func forwardTool(t *testing.T, ctx context.Context, pods kube.Resource[corev1.Pod]) {
	forwarding, stop := context.WithCancel(ctx)
	defer stop()
	local, ended := make(chan int, 1), make(chan error, 1)
	go func() {
		ended <- pod.PortForward(forwarding, pods, "tool", 8080, pod.PortForwardOptions{Ready: func(port int) { local <- port }})
	}()
	var port int
	select {
	case port = <-local:
	case err := <-ended:
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range 3 {
		resp, err := web.Get(fmt.Sprintf("http://127.0.0.1:%d/%d", port, i))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want := fmt.Sprintf("asked for /%d", i); err != nil || string(body) != want {
			t.Errorf("%v: answered %q, want %q", err, body, want)
		}
	}
	taken := pod.PortForward(forwarding, pods, "tool", 8080, pod.PortForwardOptions{Local: port})
	if taken == nil || !strings.Contains(taken.Error(), "address already in use") {
		t.Errorf("a port that is taken: %v", taken)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended by its context: %v", err)
	}
	if _, err := web.Get(fmt.Sprintf("http://127.0.0.1:%d/", port)); err == nil {
		t.Error("it still listens")
	}
}
