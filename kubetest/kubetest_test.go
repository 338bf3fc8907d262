package kubetest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kubetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get returns the status and the body of an answer of the API server.
func get(t *testing.T, config *rest.Config, path string) (int, string) {
	t.Helper()
	// With HTTP/2, the connection of a request that was just given up stays open.
	config.NextProtos = []string{"http/1.1"}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	client.Timeout = 30 * time.Second
	response, err := client.Get(config.Host + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestShared(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	if again := kubetest.Start(t, kubetest.Options{}); again != cluster {
		t.Error("a second Start with the same options returned another cluster")
	}
	var name string
	t.Run("namespace", func(t *testing.T) {
		name = cluster.Namespace(t)
		if other := cluster.Namespace(t); other == name {
			t.Errorf("two namespaces of one test are both %s", name)
		}
		if status, body := get(
			t, cluster.Config(), "/api/v1/namespaces/"+name+"/serviceaccounts/default",
		); status != http.StatusOK {
			t.Errorf("default service account of %s: %d %s", name, status, body)
		}
	})
	status, body := get(t, cluster.Config(), "/api/v1/namespaces/"+name)
	if status != http.StatusNotFound && !strings.Contains(body, `"phase":"Terminating"`) {
		t.Errorf("namespace after its test: %d %s", status, body)
	}
	if err := cluster.APIServer().Kill(t.Context()); err == nil {
		t.Error("a shared cluster could be disturbed")
	}
}

func TestPrivate(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{
		Private:       true,
		ServerOnly:    true,
		APIServerArgs: []string{"--feature-gates=WatchList=false"},
	})
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	up := func() bool {
		status, _ := get(t, cluster.Config(), "/api/v1/namespaces")
		return status == http.StatusOK
	}
	ctx := t.Context()
	name := cluster.Namespace(t)

	check("compact", cluster.Compact(ctx))
	check("kill", cluster.APIServer().Kill(ctx))
	if up() {
		t.Error("the API server answers after it was killed")
	}
	check("start", cluster.APIServer().Start(ctx))
	if !up() {
		t.Error("the API server is not ready after Start has returned")
	}
	check("pause", cluster.APIServer().Pause(ctx))
	if up() {
		t.Error("the API server answers while it is paused")
	}
	check("resume", cluster.APIServer().Resume(ctx))
	check("kill etcd", cluster.Etcd().Kill(ctx))
	check("start etcd", cluster.Etcd().Start(ctx))
	check("restart", cluster.APIServer().Restart(ctx))
	if status, body := get(t, cluster.Config(), "/api/v1/namespaces/"+name); status != http.StatusOK {
		t.Errorf("namespace after all that: %d %s", status, body)
	}
	t.Run("current", func(t *testing.T) { testCurrent(t, cluster) })
}

// testCurrent uses a running cluster as if another program had started it.
func testCurrent(t *testing.T, running *kubetest.Cluster) {
	t.Setenv("KUBETEST_CLUSTER", "current")
	t.Setenv("KUBECONFIG", running.Kubeconfig())
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	if got, want := cluster.Config().Host, running.Config().Host; got != want {
		t.Errorf("the current cluster is at %s, got one at %s", want, got)
	}
	name := cluster.Namespace(t)
	if status, body := get(
		t, running.Config(), "/api/v1/namespaces/"+name,
	); status != http.StatusOK ||
		!strings.Contains(body, "pintle.dev/kubetest") {
		t.Errorf("namespace in the current cluster: %d %s", status, body)
	}
	if _, err := kubetest.Open(t.Context(), kubetest.Options{APIServerArgs: []string{"--v=4"}}); err == nil {
		t.Error("flags were given to a running cluster")
	}
}
