package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

const definition = "foo/deploy/crd.yaml"

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/foo"}

func TestMain(m *testing.M) {
	optest.Main(m, &binary)
}

// TestServing changes the Foos of foo's namespace and sees foo serve the changes.
func TestServing(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	namespace, other := cluster.Namespace(t), cluster.Namespace(t)
	client := optest.Client(t, cluster.Config())
	optest.Apply(t, client, "", optest.Read(t, definition)...)
	samples := optest.Read(t, "foo/sample.yaml")
	optest.Apply(t, client, namespace, samples...)
	optest.Apply(t, client, other, samples[:1]...)
	foos := kube.For[Foo](client).In(namespace)

	p := binary.Run(t, optest.Kubeconfig(t, cluster.Config(), namespace, ""), "-addr=127.0.0.1:0")
	url := address(t, p)
	optest.Expect(t, p, "store is filled", "objects=2", "sinceStart=")
	const (
		good = `{"namespace":"NS","name":"good","spec":{"name":"good","info":"a helpful foo"}}`
		bad  = `{"namespace":"NS","name":"bad","spec":{"name":"bad","info":"a foo that nobody asked for"}}`
	)
	expectBody(t, url+"/foos", 200, "["+in(namespace, bad)+","+in(namespace, good)+"]")
	expectBody(t, url+"/foos/good", 200, in(namespace, good))
	expectBody(t, url+"/healthz", 200, "ok")
	expectBody(t, url+"/readyz", 200, "ok")

	changed, err := foos.Get(t.Context(), "good")
	if err != nil {
		t.Fatal(err)
	}
	changed.Spec.Info = "even better"
	if _, err := foos.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	expectBody(t, url+"/foos/good", 200, strings.Replace(in(namespace, good), "a helpful foo", "even better", 1))
	if err := foos.Delete(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	expectBody(t, url+"/foos/good", 404, `{"error":"there is no Foo good in namespace `+namespace+`"}`)

	_, _, text := ask(t, "GET", url+"/metrics", nil)
	host := strings.TrimPrefix(cluster.Config().Host, "https://")
	for _, want := range []string{
		`rest_client_requests_total{code="200",host="` + host + `",method="GET"} 2`, // a list and a watch, no discovery
		`rest_client_request_duration_seconds_count{host="` + host + `",verb="GET"} 2`,
		`pintle_store_synced{store="foos"} 1`,
		`pintle_store_objects{store="foos"} 1`,
		`pintle_store_bytes{store="foos"} `,
		`pintle_store_last_event_age_seconds{store="foos"} `,
		`process_resident_memory_bytes `,
		`go_goroutines `,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no metric begins with %s", want)
		}
	}

	all := binary.Run(t, optest.Kubeconfig(t, cluster.Config(), namespace, ""), "-addr=127.0.0.1:0", "-namespace=*")
	url = address(t, all)
	optest.Expect(t, all, "store is filled")
	expectBody(t, url+"/foos/"+other+"/good", 200, in(other, good))
	expectBody(t, url+"/foos/"+namespace+"/bad", 200, in(namespace, bad))
	expectBody(t, url+"/foos/bad", 404, `{"error":"Foos of all namespaces are served: ask for /foos/{namespace}/bad"}`)
}

// TestTroubles takes away the API server and the definition, and gives them back.
func TestTroubles(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{Private: true, ServerOnly: true})
	client := optest.Client(t, cluster.Config())
	p := binary.Run(t, optest.Kubeconfig(t, cluster.Config(), "default", ""), "-addr=127.0.0.1:0")
	url := address(t, p)
	optest.Expect(t, p, "store is out of sync", "has no foos in clux.dev/v1", "install its CustomResourceDefinition")
	expectBody(t, url+"/healthz", 200, "ok")
	expectBody(t, url+"/readyz", 503, "the store has not been filled yet")
	expectBody(t, url+"/foos", 503, `{"error":"the store has not been filled yet"}`)

	optest.Apply(t, client, "", optest.Read(t, definition)...)
	optest.ExpectRecovery(t, p, optest.NotServedYet, "kind=Foo", "namespace=default")
	expectBody(t, url+"/readyz", 200, "ok")
	expectBody(t, url+"/foos", 200, "[]")

	if err := cluster.APIServer().Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	optest.Expect(t, p, "store is out of sync", "watch Foo in default") // by an end or by a reset
	expectBody(t, url+"/foos", 200, "[]")                               // it serves the Foos that it has
	late := binary.Run(t, optest.Kubeconfig(t, cluster.Config(), "default", ""), "-addr=127.0.0.1:0")
	optest.Expect(t, late, "store is out of sync", "cannot reach the API server at 127.0.0.1:", "is it running?")
	expectBody(t, address(t, late)+"/readyz", 503, "the store has not been filled yet")
	if err := cluster.APIServer().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	optest.Apply(t, client, "default", optest.Read(t, "foo/sample.yaml")[0])
	for _, p := range []*program.Program{p, late} {
		expectBody(
			t,
			address(t, p)+"/foos/good",
			200,
			`{"namespace":"default","name":"good","spec":{"name":"good","info":"a helpful foo"}}`,
		)
	}
}

// TestStopping ends foo while one client reads a large answer slowly, and while another
// client does not read at all.
func TestStopping(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	namespace := cluster.Namespace(t)
	client := optest.Client(t, cluster.Config())
	optest.Apply(t, client, "", optest.Read(t, definition)...)
	// The size exceeds the buffers between a server and a client.
	const size, n = 1 << 20, 12
	for i := range n {
		large := &Foo{Spec: FooSpec{Name: "large", Info: strings.Repeat("x", size)}}
		large.Name = fmt.Sprintf("large-%d", i)
		if _, err := kube.For[Foo](client).In(namespace).Create(t.Context(), large); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := optest.Kubeconfig(t, cluster.Config(), namespace, "")
	begin := func(t *testing.T) (*program.Program, string, *http.Response) {
		t.Helper()
		p := binary.Run(t, kubeconfig, "-addr=127.0.0.1:0")
		url := address(t, p)
		expectBody(t, url+"/readyz", 200, "ok")
		return p, url, reading(t, url)
	}
	hanging, _, never := begin(t)
	hung := time.Now()
	if err := hanging.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			p, url, resp := begin(t)
			if err := p.Signal(sig); err != nil {
				t.Fatal(err)
			}
			optest.Expect(t, p, "stopping")
			time.Sleep(300 * time.Millisecond) // it may not end
			if code, _, body := ask(t, "GET", url+"/healthz", nil); code != 0 {
				t.Errorf("a request after the end began: %d %s", code, body)
			}
			select {
			case <-p.Done():
				t.Fatal("it has ended before the request that was under way")
			default:
			}
			began := time.Now()
			if got, err := io.Copy(io.Discard, resp.Body); err != nil || got < n*size {
				t.Errorf("the request that was under way: %d bytes, %v", got, err)
			}
			t.Logf("the rest was read in %s", time.Since(began))
			if code := optest.ExpectEnd(t, p); code != 0 {
				t.Errorf("status %d", code)
			}
		})
	}
	// foo waits for a client that does not read, but not for ever.
	optest.Expect(t, hanging, "foo failed", "requests that took longer than "+drainTime.String()+" were interrupted")
	if waited := time.Since(hung); waited < drainTime {
		t.Errorf("a request that was under way was cut off after %s", waited)
	}
	if code := optest.ExpectEnd(t, hanging); code != 1 {
		t.Errorf("status %d", code)
	}
	if got, err := io.Copy(io.Discard, never.Body); err == nil || got >= n*size {
		t.Errorf("a request that was cut off has all of its answer: %d bytes", got)
	}
}

// reading requests all Foos and reads only the beginning of the answer.
func reading(t *testing.T, url string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, "GET /foos HTTP/1.1\r\nHost: foo\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// TestBadInput checks foo's messages when it cannot start or is refused.
func TestBadInput(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	namespace := cluster.Namespace(t)
	config := optest.Kubeconfig(t, cluster.Config(), namespace, "")
	client := optest.Client(t, cluster.Config())
	optest.Apply(t, client, "", optest.Read(t, definition)...)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	broken := t.TempDir() + "/broken"
	if err := os.WriteFile(broken, []byte("{clusters"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		kubeconfig string
		args       []string
		code       int // -1: it keeps running
		want       []string
	}{
		"no kubeconfig":   {broken + "-not", nil, 1, []string{"foo failed", "load kubeconfig: ", "does not exist", "set KUBECONFIG or start a cluster"}},
		"broken":          {broken, nil, 1, []string{"foo failed", "load kubeconfig: ", broken}},
		"port taken":      {config, []string{"-addr=" + taken.Addr().String()}, 1, []string{"foo failed", "open " + taken.Addr().String(), "address already in use"}},
		"bad address":     {config, []string{"-addr=nowhere"}, 1, []string{"foo failed", "open nowhere for HTTP", "missing port"}},
		"bad namespace":   {config, []string{"-namespace=A b"}, 2, []string{`"A b" cannot be the name of a namespace`}},
		"unknown flag":    {config, []string{"-nonsense"}, 2, []string{"flag provided but not defined: -nonsense"}},
		"argument":        {config, []string{"nonsense"}, 2, []string{`foo takes no argument "nonsense"`}},
		"not let in":      {optest.Kubeconfig(t, cluster.Config(), namespace, "wrong"), nil, -1, []string{"store is out of sync", "does not accept the credentials"}},
		"nothing allowed": {optest.Kubeconfig(t, cluster.Config(), namespace, nobody(t, client, namespace)), nil, -1, []string{"store is out of sync", "not allowed (a Role or ClusterRole must grant it)", `cannot list resource`}},
	} {
		t.Run(name, func(t *testing.T) {
			p := binary.Run(t, test.kubeconfig, append([]string{"-addr=127.0.0.1:0"}, test.args...)...)
			t.Log(optest.Expect(t, p, test.want...))
			if test.code < 0 {
				expectBody(t, address(t, p)+"/readyz", 503, "the store has not been filled yet")
			} else if code := optest.ExpectEnd(t, p); code != test.code {
				t.Errorf("status %d, want %d", code, test.code)
			}
		})
	}
}

var serving = regexp.MustCompile(`msg=serving address=(\S+)`)

// address returns the URL of a foo.
func address(t *testing.T, p *program.Program) string {
	t.Helper()
	return "http://" + serving.FindStringSubmatch(optest.Expect(t, p, "msg=serving"))[1]
}

func in(namespace, answer string) string { return strings.ReplaceAll(answer, "NS", namespace) }

// expectBody repeats a request until the answer is as expected.
func expectBody(t *testing.T, url string, code int, body string) {
	t.Helper()
	kubetest.Eventually(t, "GET "+url+" is answered as wanted", func() error {
		gotCode, _, got := ask(t, "GET", url, nil)
		got = string(bytes.TrimSuffix([]byte(got), []byte("\n")))
		if gotCode != code || got != body {
			return fmt.Errorf("%d %s\nwant %d %s", gotCode, got, code, body)
		}
		return nil
	})
}

// withToken returns a configuration whose only credential is a token.
func withToken(c *rest.Config, token string) *rest.Config {
	anonymous := rest.AnonymousClientConfig(c)
	anonymous.BearerToken = token
	return anonymous
}
