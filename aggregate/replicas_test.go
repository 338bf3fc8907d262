package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// replica is a server that clients call directly.
type replica struct {
	*bench
	address string
	samples kube.Resource[Sample]
	views   kube.Resource[PodView]
	http    *http.Client
	stop    func()
	ended   <-chan struct{}
	err     error // set when it has ended
}

// replica starts a server that is not registered, and waits until it is ready.
func (f *bench) replica(server aggregate.Server) *replica {
	f.Helper()
	r := f.begin(server)
	r.awaitReady()
	return r
}

// awaitReady waits until the server is ready.
func (r *replica) awaitReady() {
	r.Helper()
	kubetest.Eventually(r, "the server is ready", func() error {
		select {
		case <-r.ended:
			r.Fatalf("the server has ended: %v", r.err)
		default:
		}
		if !r.ready() {
			return errors.New("it is not")
		}
		return nil
	})
}

// begin starts a server that is not registered. It does not wait.
func (f *bench) begin(server aggregate.Server) *replica {
	f.Helper()
	server.Client, server.Address = f.client, testport.Address(f.T)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	r := &replica{bench: f, address: "https://" + server.Address, ended: ended}
	go func() { r.err = server.Run(ctx); close(ended) }()
	r.stop = sync.OnceFunc(func() {
		stop()
		<-ended
		if r.err != nil {
			f.Error(r.err)
		}
	})
	f.Cleanup(r.stop)
	config := rest.CopyConfig(f.cluster.Config())
	// Other tests check the server's certificate.
	config.Host, config.Insecure, config.CAData, config.CAFile = r.address, true, nil, ""
	var err error
	r.http, err = rest.HTTPClientFor(config)
	f.ok(err)
	f.Cleanup(r.http.CloseIdleConnections)
	client, err := kube.Config{Rest: config}.Connect()
	f.ok(err)
	f.Cleanup(client.Close)
	kind := func(of kube.GVK, plural string) kube.Kind {
		return kube.Kind{GVK: of, Plural: plural, Scope: kube.Namespaced}
	}
	r.samples = kube.For[Sample](client, kind(Sample{}.GVK(), "samples")).In(f.namespace)
	r.views = kube.For[PodView](client, kind(PodView{}.GVK(), "podviews")).In(f.namespace)
	return r
}

// ready reports whether the replica says that it is ready.
func (r *replica) ready() bool {
	resp, err := direct.Get(r.address + "/readyz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// read returns the body of an answer of the replica.
func (r *replica) read(path string) string {
	r.Helper()
	resp, err := r.http.Get(r.address + path)
	r.ok(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	r.ok(err)
	if resp.StatusCode != http.StatusOK {
		r.Errorf("GET %s: %s %s", path, resp.Status, body)
	}
	return string(body)
}

// TestReplicas writes through two servers with one etcd. A watch at one of them follows both.
// One ends during the writes. The other has all that either acknowledged, and no version went
// back.
func TestReplicas(t *testing.T) {
	endpoint, _ := outside(t)
	server := plain(t)
	server.Storage = aggregate.Storage{Endpoints: []string{endpoint}}
	f := prepare(t, kubetest.Start(t, kubetest.Options{Nodes: 1}))
	one, two := f.replica(server), f.replica(server)
	// kube-apiserver would download the documents again and again if they differed.
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/apis/" + group, "/apis/" + group + "/v1alpha1"} {
		if a, b := one.read(path), two.read(path); a != b {
			t.Errorf("GET %s differs: %s and %s", path, a, b)
		}
	}
	f.pod("one", "a")
	a, err := one.views.Get(t.Context(), "view-one")
	f.ok(err)
	b, err := two.views.Get(t.Context(), "view-one")
	f.ok(err)
	if a.UID != b.UID || a.ResourceVersion != b.ResourceVersion {
		t.Errorf("views %s and %s", indent(a), indent(b))
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := make(chan string, 1000)
	listed := make(chan struct{})
	synced := sync.OnceFunc(func() { close(listed) })
	var watching sync.WaitGroup
	watching.Go(func() {
		for ev, err := range two.samples.Watch(ctx) {
			switch {
			case err != nil:
			case ev.Type == kube.Synced:
				synced()
			case ev.Object != nil:
				seen <- ev.Object.Name
			}
		}
	})
	<-listed
	const each = 100
	var mu sync.Mutex
	acknowledged := map[string]*Sample{}
	var writers sync.WaitGroup
	for w, r := range []*replica{one, one, two, two} {
		writers.Go(func() {
			for i := range each {
				l := new(Sample)
				l.Name, l.Spec.Weight, l.Spec.Height = fmt.Sprintf("sample-%d-%d", w, i), int32(i%100+1), 100
				soon, cancel := context.WithTimeout(ctx, time.Minute)
				l, err := r.samples.Create(soon, l)
				cancel()
				if err != nil && r == one {
					return // it has ended
				}
				f.ok(err)
				mu.Lock()
				acknowledged[l.Name] = l
				mu.Unlock()
			}
		})
	}
	kubetest.Eventually(t, "both have written", func() error {
		mu.Lock()
		defer mu.Unlock()
		if acknowledged["sample-0-20"] == nil || acknowledged["sample-2-20"] == nil {
			return fmt.Errorf("%d objects in all", len(acknowledged))
		}
		return nil
	})
	one.stop()
	writers.Wait()
	missing := map[string]bool{}
	for name := range acknowledged {
		missing[name] = true
	}
	late := time.After(time.Minute)
	for len(missing) > 0 {
		select {
		case name := <-seen:
			delete(missing, name)
		case <-late:
			t.Fatalf("the watch has not shown %d of %d objects", len(missing), len(acknowledged))
		}
	}
	stop()
	watching.Wait()
	for name, want := range acknowledged {
		got, err := two.samples.Get(t.Context(), name)
		f.ok(err)
		if got.UID != want.UID || got.ResourceVersion != want.ResourceVersion {
			t.Errorf("%s has version %s, acknowledged was %s", name, got.ResourceVersion, want.ResourceVersion)
		}
	}
	t.Logf("%d objects", len(acknowledged))
	before := acknowledged["sample-0-20"]
	after, err := two.samples.Modify(t.Context(), before.Name, func(l *Sample) error { l.Spec.Weight = 200; return nil })
	f.ok(err)
	was, _ := strconv.ParseUint(before.ResourceVersion, 10, 64)
	if is, err := strconv.ParseUint(after.ResourceVersion, 10, 64); err != nil || is <= was {
		t.Errorf("version %s after %s", after.ResourceVersion, before.ResourceVersion)
	}
}
