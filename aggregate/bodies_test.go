package aggregate_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/kubetest"
)

// TestBodies sends requests whose handling needs much memory. Those that are small but grow
// are handled one at a time. A client that sends a large body slowly does not keep others waiting.
func TestBodies(t *testing.T) {
	var inside, most atomic.Int64
	server := plain(t)
	server.Kinds = []aggregate.Any{aggregate.Stored[Sample]{
		Definition: samples(t),
		Validate: func(_ context.Context, l, _ *Sample) field.ErrorList {
			if strings.HasPrefix(l.Name, "grows") {
				n := inside.Add(1)
				for was := most.Load(); was < n && !most.CompareAndSwap(was, n); was = most.Load() {
				}
				time.Sleep(300 * time.Millisecond) // a slow validation
				inside.Add(-1)
			}
			return nil
		},
	}}
	f := serveOn(t, server, kubetest.Start(t, kubetest.Options{Nodes: 1}))
	path := f.path(group, "")
	object := func(name, spec string) string { return strings.ReplaceAll(sample(name, spec), "{g}", group) }
	for i := range 4 {
		if got := f.do("POST", path, object(fmt.Sprint("grows-", i), `{"weight":1,"height":1}`)); got.Code != http.StatusCreated {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
	}
	together := func(send func(i int) answer) int64 {
		most.Store(0)
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				if got := send(i); got.Code >= 500 {
					t.Errorf("%d %s", got.Code, got.Body)
				}
			})
		}
		clients.Wait()
		return most.Load()
	}
	grow := `[{"op":"add","path":"/metadata/annotations","value":{"a":"` + strings.Repeat("x", 512) + `"}},
		{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/annotations/b"}]`
	if n := together(func(i int) answer {
		return f.do("PATCH", fmt.Sprint(path, "/grows-", i, "?dryRun=All"), grow, jsonPatch)
	}); n != 1 {
		t.Errorf("%d JSON patches with copies are handled at once", n)
	}
	if n := together(func(i int) answer {
		aliases := fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Sample\nmetadata: {name: grows-%d, annotations: {a: &a xx, b: *a}}\nspec: {weight: 1, height: 1}\n", group, i)
		return f.do("PATCH", fmt.Sprint(path, "/grows-", i, "?fieldManager=x&dryRun=All"), aliases, applyPatch)
	}); n != 1 {
		t.Errorf("%d YAML documents with aliases are handled at once", n)
	}
	if n := together(func(i int) answer {
		return f.do("PATCH", fmt.Sprint(path, "/grows-", i, "?dryRun=All"), `[{"op":"replace","path":"/spec/weight","value":3}]`, jsonPatch)
	}); n < 2 {
		t.Errorf("small patches wait for each other")
	}

	// A client that sends a part of a large body and then nothing.
	ctx, stop := context.WithCancel(t.Context())
	slow, keeps := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.cluster.Config().Host+path, slow)
	f.ok(err)
	req.ContentLength = 3 << 20
	req.Header.Set("Content-Type", "application/json")
	var sender sync.WaitGroup
	sender.Go(func() {
		if resp, err := f.http.Do(req); err == nil {
			resp.Body.Close()
		}
	})
	defer sender.Wait()
	defer stop()
	defer keeps.Close()
	_, err = keeps.Write([]byte(strings.Repeat(" ", 1<<20)))
	f.ok(err)
	time.Sleep(time.Second) // the server waits for the rest
	large := object("large", `{"weight":1,"height":1,"unknown":"`+strings.Repeat("x", 1<<20)+`"}`)
	began := time.Now()
	if got := f.do("POST", path+"?timeout=40s", large); got.Code != http.StatusCreated {
		t.Errorf("a large body beside a slow one: %d %.300s", got.Code, got.Body)
	}
	t.Logf("answered after %s", time.Since(began))
}
