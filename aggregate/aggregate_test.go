package aggregate_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pintle-go/pintle/internal/leak"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "aggregate-test-")
	if err != nil {
		panic(err)
	}
	launcher = filepath.Join(dir, "cluster")
	out, err := exec.Command("go", "build", "-trimpath", "-o", launcher, "github.com/pintle-go/pintle/cluster").CombinedOutput()
	if err != nil {
		panic(string(out))
	}
	code := leak.Run(m,
		// The library checks its log for ever, ends a wait for a version by a timer of seconds,
		// and shares the connections of its clients. A file of an audit log has a goroutine that
		// nobody can end (github.com/natefinch/lumberjack/issues/56).
		goleak.IgnoreAnyFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"),
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.Forever"),
		goleak.IgnoreAnyFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshAndBlock.func2"),
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// TestServer runs all quick tests that share a server.
func TestServer(t *testing.T) {
	runAll(t, map[string]func(*bench){
		"access":     testAccess,
		"charges":    testCharges,
		"left":       testLeft,
		"twin":       testTwin,
		"client":     testClient,
		"commands":   testCommands,
		"forged":     testForged,
		"fresh":      testFresh,
		"functions":  testFunctions,
		"hostile":    testHostile,
		"informers":  testInformers,
		"kubectl":    testKubectl,
		"namespace":  testNamespace,
		"numbers":    testNumbers,
		"panic":      testPanic,
		"policies":   testPolicies,
		"projection": testProjection,
		"stream":     testStream,
		"unread":     testUnread,
		"upgrade":    testUpgrade,
		"webhook":    testWebhook,
	})
}

// TestSoakServer runs the tests that wait for slow controllers or open many watches.
func TestSoakServer(t *testing.T) {
	runAll(t, map[string]func(*bench){"collector": testCollector, "quota": testQuota, "watches": testManyWatches})
}

func runAll(t *testing.T, tests map[string]func(*bench)) {
	t.Helper()
	f := serve(t, plain(t))
	f.install()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(f.Name(), "Soak") {
				t.Parallel()
			}
			sub := *f
			sub.T, sub.namespace, sub.cache = t, f.cluster.Namespace(t), t.TempDir()
			test(&sub)
		})
	}
}

// testAccess calls the server directly. Names in headers count from kube-apiserver alone.
func testAccess(f *bench) {
	if d := f.ready(); d > 30*time.Second {
		f.Errorf("the server is ready after %s", d)
	}
	get := func(path string, header ...string) (int, string) {
		req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.address+path, nil)
		if err != nil {
			f.Fatal(err)
		}
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			req.Header.Add(name, value)
		}
		resp, err := direct.Do(req)
		if err != nil {
			f.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Status
	}
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if code, status := get(path); code != http.StatusOK {
			f.Errorf("GET %s: %s", path, status)
		}
	}
	for _, path := range []string{"/apis", "/apis/" + group, f.path(group, ""), "/metrics", "/openapi/v3"} {
		forged := []string{"X-Remote-User: admin", "X-Remote-Group: system:masters"}
		if code, status := get(path, forged...); code != http.StatusUnauthorized {
			f.Errorf("GET %s with a forged name: %s, want 401", path, status)
		}
		if code, status := get(path); code != http.StatusUnauthorized {
			f.Errorf("GET %s without a name: %s, want 401", path, status)
		}
		if code, status := get(path, "Authorization: Bearer nonsense"); code != http.StatusUnauthorized {
			f.Errorf("GET %s with a wrong token: %s, want 401", path, status)
		}
	}
}
