package aggregate_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/server/options"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/kube"
)

// outside runs an etcd beside the server until the test ends. It returns its URL.
func outside(t *testing.T) (endpoint string, server *embed.Etcd) {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd-") //nolint:usetesting // the path of a socket in it must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync = filepath.Join(dir, "etcd"), true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "client")}}
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, "peer")}}
	nowhere := []url.URL{{Scheme: "unix", Host: "none:0"}}
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = nowhere, nowhere
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	server, err = embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	return "unix://" + filepath.Join(dir, "client"), server
}

// TestOutsideEtcd replaces a server by another with the same etcd outside of both. It also
// writes an audit log.
func TestOutsideEtcd(t *testing.T) {
	dir := t.TempDir()
	audit := options.NewAuditOptions()
	audit.LogOptions.Path, audit.PolicyFile = filepath.Join(dir, "log"), filepath.Join(dir, "policy")
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
	if err := os.WriteFile(audit.PolicyFile, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint, _ := outside(t)
	server := plain(t)
	server.Storage, server.Audit = aggregate.Storage{Endpoints: []string{endpoint}}, audit
	f := serve(t, server)
	before, err := f.create(f.namespace, "anna")
	f.ok(err)
	f.stop()
	f.start(server)
	after, err := kube.For[Sample](f.client).In(f.namespace).Get(t.Context(), "anna")
	f.ok(err)
	if after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the sample is %s %s, was %s %s", after.UID, after.ResourceVersion, before.UID, before.ResourceVersion)
	}
	f.stop()
	lines, err := os.ReadFile(audit.LogOptions.Path)
	f.ok(err)
	for _, want := range []string{`"verb":"create"`, `"name":"anna"`, `"username":"admin"`, `"code":201`} {
		if !strings.Contains(string(lines), want) {
			t.Errorf("the audit log has no %s", want)
		}
	}
}

// TestFull fills the etcd inside the program. Writes are refused then, and everything that
// was acknowledged is there. When objects are deleted, etcd accepts writes again, in the running
// server and in the next one.
func TestFull(t *testing.T) {
	server := plain(t)
	server.Storage = aggregate.Storage{Dir: shortDir(t), QuotaBytes: 16 << 20}
	f := serve(t, server)
	path := f.path(group, "")
	large := strings.Repeat("x", 200<<10)
	write := func(name string) answer {
		return f.do("POST", path, fmt.Sprintf(`{"apiVersion":"%s/v1alpha1","kind":"Sample","metadata":{"name":%q,"annotations":{"large":%q}},"spec":{"weight":1,"height":1}}`,
			group, name, large))
	}
	fill := func(name string) (acknowledged []string) {
		t.Helper()
		var mu sync.Mutex
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := range 500 {
					name := fmt.Sprint(name, w, "-", i)
					got := write(name)
					if got.Code != http.StatusCreated {
						if got.Code != http.StatusInternalServerError || !strings.Contains(got.Body, "database space exceeded") {
							t.Errorf("a write to a full etcd: %d %.200s", got.Code, got.Body)
						}
						return
					}
					mu.Lock()
					acknowledged = append(acknowledged, name)
					mu.Unlock()
				}
			})
		}
		writers.Wait()
		return acknowledged
	}
	deleteAll := func() { // a busy machine exceeds the server's limit for one request
		t.Helper()
		f.answers("all are deleted", http.StatusOK, func() answer { return f.do("DELETE", path, "") })
	}
	all := fill("large-")
	if len(all) < 20 {
		t.Errorf("%d objects fit", len(all))
	}
	for _, name := range all {
		if got := f.do("GET", path+"/"+name, ""); got.Code != http.StatusOK || !strings.Contains(got.Body, large) {
			t.Errorf("object %s: %d", name, got.Code)
		}
	}
	deleteAll()
	f.answers("etcd accepts writes again", http.StatusCreated, func() answer { return write("again") })

	fill("more-")
	deleteAll()
	f.stop()
	f.start(server)
	if got := write("last"); got.Code != http.StatusCreated {
		t.Errorf("a write after the start: %d %.200s", got.Code, got.Body)
	}
}

// testManyWatches opens 1,000 watches. One more client never reads its own. The server
// serves them all, and other requests.
func testManyWatches(f *bench) {
	path := f.path(group, "")
	_, stuck := f.open(path + "?watch=1") // nobody reads it
	defer stuck()
	var watches []<-chan event
	for range 1000 {
		events, stop := f.open(path + "?watch=1")
		defer stop()
		watches = append(watches, events)
	}
	_, err := f.create(f.namespace, "seen")
	f.ok(err)
	late := time.After(time.Minute)
	for i, events := range watches {
		select {
		case ev := <-events:
			if ev.Type != "ADDED" || ev.Object.Metadata.Name != "seen" {
				f.Fatalf("watch %d: %+v", i, ev)
			}
		case <-late:
			f.Fatalf("watch %d has no event", i)
		}
	}
}
