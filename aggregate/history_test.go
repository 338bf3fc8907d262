package aggregate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/kubetest"
)

// TestForgotten asks for history that etcd has compacted: a watch from before, and the next page of a
// list from before. The answer of both is 410.
func TestForgotten(t *testing.T) {
	endpoint, etcd := outside(t)
	server := plain(t)
	server.Kinds = server.Kinds[:1]
	server.Storage = aggregate.Storage{Endpoints: []string{endpoint}}
	f := serveOn(t, server, kubetest.Start(t, kubetest.Options{Nodes: 1}))
	for i := range 5 {
		_, err := f.create(f.namespace, fmt.Sprint("sample-", i))
		f.ok(err)
	}
	var page struct {
		Metadata struct{ Continue, ResourceVersion string }
	}
	first := f.do("GET", f.path(group, "?limit=2"), "")
	f.ok(json.Unmarshal([]byte(first.Body), &page))
	if page.Metadata.Continue == "" {
		t.Fatalf("the list has no pages: %s", first.Body)
	}
	for i := range 5 {
		f.do("PATCH", f.path(group, fmt.Sprint("/sample-", i)), `{"spec":{"weight":7}}`, mergePatch)
	}
	f.stop()
	_, err := etcd.Server.Compact(t.Context(), &pb.CompactionRequest{Revision: etcd.Server.KV().Rev(), Physical: true})
	f.ok(err)
	f.start(server)
	if got := f.do("GET", f.path(group, "?limit=2&continue="+url.QueryEscape(page.Metadata.Continue)), ""); got.Code != http.StatusGone ||
		!strings.Contains(got.Body, `"reason":"Expired"`) {
		t.Errorf("the next page: %d %s", got.Code, got.Body)
	}
	// kube-apiserver may answer before the watch or in it.
	got := f.do("GET", f.path(group, "?watch=1&timeoutSeconds=5&resourceVersion="+page.Metadata.ResourceVersion), "")
	if !strings.Contains(got.Body, `"code":410`) || !strings.Contains(got.Body, `"reason":"Expired"`) {
		t.Errorf("a watch from before: %d %s", got.Code, got.Body)
	}
	if got := f.do("GET", f.path(group, ""), ""); got.Code != http.StatusOK {
		t.Errorf("a list: %d %s", got.Code, got.Body)
	}
}

// testUnread opens a watch and does not read it, while 15 MB change. The server ends
// it. Another watch sees all changes.
func testUnread(f *bench) {
	const changes, size = 75, 200 << 10
	path := f.path(group, "")
	_, err := f.create(f.namespace, "large")
	f.ok(err)
	ctx, stop := context.WithCancel(f.Context())
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.cluster.Config().Host+path+"?watch=1", http.NoBody)
	f.ok(err)
	unread, err := f.http.Do(req)
	f.ok(err)
	defer unread.Body.Close()
	other := f.watch(ctx, path+"?watch=1")
	f.next(other, "ADDED large")
	seen := make(chan bool)
	go func() {
		defer close(seen)
		for ev := range other {
			if ev.Object.Metadata.Labels["n"] == fmt.Sprint(changes) {
				return
			}
		}
	}()
	for i := range changes {
		body := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"},"annotations":{"large":%q}}}`, i+1, strings.Repeat(string(rune('a'+i%26)), size))
		if got := f.do("PATCH", path+"/large", body, mergePatch); got.Code != http.StatusOK {
			f.Fatalf("change %d: %d %.300s", i, got.Code, got.Body)
		}
	}
	select {
	case <-seen:
	case <-time.After(time.Minute):
		f.Fatal("the other watch has not seen all changes")
	}
	// The rest that was on its way is still there. The watch ends before the last change.
	events := 0
	frames := json.NewDecoder(unread.Body)
	for {
		var ev event
		if err := frames.Decode(&ev); err != nil {
			f.Logf("%d events, then %v", events, err)
			break
		}
		if events++; ev.Object.Metadata.Labels["n"] == fmt.Sprint(changes) {
			f.Errorf("a client that does not read gets all %d events", events)
			break
		}
	}
}
