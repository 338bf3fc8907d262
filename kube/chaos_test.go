package kube

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pintle-go/pintle/kubetest"
)

// jsonConfigMap is a ConfigMap as a type of the test's own. It is read as JSON.
type jsonConfigMap struct {
	Object
	Data map[string]string `json:"data,omitempty"`
}

func (jsonConfigMap) GVK() GVK { return GVK{Version: "v1", Kind: "ConfigMap"} }

// TestChaos verifies the promise of watches and stores against a real API server. The
// server is killed, restarted, paused, compacted and cut off at random. CHAOS_SECONDS is
// how long a run lasts. CHAOS_SEED repeats a run's choices.
func TestChaos(t *testing.T) { testChaos(t, 10) }

func TestSoakChaos(t *testing.T) { testChaos(t, 60) }

func testChaos(t *testing.T, seconds int) {
	if testing.Short() {
		t.Skip("starts API servers")
	}
	// HTTP/2 pings find a connection that goes silent. With these settings they find it
	// sooner than by default, so that the test need not last minutes.
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "2")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "2")
	if n, err := strconv.Atoi(os.Getenv("CHAOS_SECONDS")); err == nil {
		seconds = n
	}
	seed, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	for _, gate := range []bool{true, false} {
		t.Run(fmt.Sprintf("WatchList=%t", gate), func(t *testing.T) {
			t.Parallel() // each waits most of the time
			t.Logf("CHAOS_SEED=%d CHAOS_SECONDS=%d", seed, seconds)
			newChaos(t, gate, seed).run(time.Duration(seconds) * time.Second)
		})
	}
}

// chaos is one run against one cluster.
type chaos struct {
	*testing.T
	cluster *kubetest.Cluster
	proxy   *cutProxy
	steady  *Client // client past the proxy
	shaken  *Client // client through the proxy
	random  *rand.Rand
	seed    uint64
	writes  atomic.Int64
	checks  []*checkedWatch
	running sync.WaitGroup
}

// checkedWatch is a watch whose events are compared with the server's objects.
type checkedWatch struct {
	*checker
	truth     *handle
	namespace []string
	verified  int
	compacted int
}

// enoughWrites is the smallest number of writes of a run.
const enoughWrites = 250

var chaosNamespaces = []string{"chaos-a", "chaos-b", "chaos-c"}

func newChaos(t *testing.T, gate bool, seed uint64) *chaos {
	cluster := kubetest.Start(t, kubetest.Options{Private: true, ServerOnly: true,
		APIServerArgs: []string{fmt.Sprintf("--feature-gates=WatchList=%t", gate)}})
	config := cluster.Config()
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{T: t, cluster: cluster, proxy: startProxy(t, server.Host), seed: seed,
		random: rand.New(rand.NewPCG(seed, 0))}
	through := cluster.Config()
	through.Host = "https://" + c.proxy.addr()
	quiet := testLogger(t)
	if c.steady, err = (Config{Rest: config, Logger: quiet}).Connect(); err != nil {
		t.Fatal(err)
	}
	if c.shaken, err = (Config{Rest: through, Logger: quiet}).Connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.steady.Close)
	t.Cleanup(c.shaken.Close)
	c.prepare()
	return c
}

// prepare creates the namespaces and installs the widgets' definition.
func (c *chaos) prepare() {
	namespaces := For[corev1.Namespace](c.steady)
	for _, ns := range append([]string{"chaos-own"}, chaosNamespaces...) {
		if _, err := namespaces.Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
			c.Fatal(err)
		}
	}
	crds := For[unstructured.Unstructured](c.steady, Kind{GVK: GVK{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"}, Plural: "customresourcedefinitions", Scope: ClusterScoped})
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	_, err := crds.Create(c.Context(), &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": open}}},
		},
	}})
	if err != nil {
		c.Fatal(err)
	}
}

// addWatch adds a watch to the checked ones. It uses an internal loop that knows the
// resourceVersions of marks.
func addWatch[T any](ctx context.Context, c *chaos, name string, r Reader[T], how listing, note func(*T) string) {
	ck := c.addCheck(name, r.handle)
	c.running.Go(func() { checkWatch(ctx, r, how, ck.checker, note) })
}

func (c *chaos) addCheck(name string, h *handle) *checkedWatch {
	truth := *h
	truth.client = c.steady
	ck := &checkedWatch{checker: newChecker(c.T, name), truth: &truth, namespace: h.namespaces}
	c.checks = append(c.checks, ck)
	return ck
}

// addStore adds a store. Its changes are checked like a watch. Its content is compared
// with the server at the end.
func addStore[T any](
	ctx context.Context, c *chaos, name string, r Reader[T], note func(*T) string,
) func() map[Key]version {
	store := StoreOf(ctx, r)
	ck := c.addCheck(name, r.handle)
	c.running.Go(func() { checkLoop(store.Watch(ctx), ck.checker, note) })
	c.running.Go(func() { <-store.Done() })
	return func() map[Key]version {
		state := make(map[Key]version)
		for o, err := range store.All(ctx) {
			if err != nil {
				c.Error(err)
				break
			}
			state[KeyOf(asObject(o))] = version{asObject(o).GetUID(), asObject(o).GetResourceVersion()}
		}
		return state
	}
}

func (c *chaos) run(d time.Duration) {
	ctx, stop := context.WithCancel(c.Context())
	defer c.running.Wait()
	defer stop()
	writing, endWriting := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for i := range 16 {
		random := rand.New(rand.NewPCG(c.seed, uint64(1+i)))
		writers.Go(func() { c.write(writing, random) })
	}
	own := newOwner(c)
	writers.Go(func() { own.run(writing) })
	_ = sleep(ctx, 500*time.Millisecond) // the first listing has something to list
	cms := For[corev1.ConfigMap](c.shaken).ReadOnly()
	addWatch(ctx, c, "protobuf", cms, inOneList, noteOfConfigMap)
	addWatch(ctx, c, "in pages", cms.In(chaosNamespaces[0]), inPages, noteOfConfigMap)
	addWatch(ctx, c, "streamed", cms, inStream, noteOfConfigMap)
	addWatch(ctx, c, "json", For[jsonConfigMap](c.shaken).ReadOnly(), inOneList, func(o *jsonConfigMap) string {
		return o.Data["note"]
	})
	addWatch(ctx, c, "view", noteViews(c.shaken), inOneList, noteOfView)
	addWatch(ctx, c, "metadata", onlyMeta(c.shaken), inOneList, noNote)
	addWatch(ctx, c, "labeled", cms.Labeled("odd=1"), inOneList, noteOfConfigMap)
	addWatch(ctx, c, "widgets", widgets(c.shaken), inOneList, noteOfWidget)
	addWatch(ctx, c, "widgets, streamed", widgets(c.shaken), inStream, noteOfWidget)
	several := c.addCheck("several namespaces", cms.In(chaosNamespaces[1:]...).handle)
	c.running.Go(func() { checkLoop(cms.In(chaosNamespaces[1:]...).Watch(ctx), several.checker, noteOfConfigMap) })
	stores := map[*checkedWatch]func() map[Key]version{}
	for name, add := range map[string]func(string) func() map[Key]version{
		"store": func(n string) func() map[Key]version { return addStore(ctx, c, n, cms, noteOfConfigMap) },
		"store of views": func(n string) func() map[Key]version {
			return addStore(ctx, c, n, noteViews(c.shaken), noteOfView)
		},
		"store of widgets": func(n string) func() map[Key]version {
			return addStore(ctx, c, n, widgets(c.shaken).Labeled("odd=1"), noteOfWidget)
		},
		"store of some of them": func(n string) func() map[Key]version {
			return addStore(ctx, c, n, cms.In(chaosNamespaces[:2]...), noteOfConfigMap)
		},
	} {
		all := add(name)
		stores[c.checks[len(c.checks)-1]] = all
	}
	verifying, endVerifying := context.WithCancel(ctx)
	var verifier sync.WaitGroup
	verifier.Go(func() {
		for sleep(verifying, 100*time.Millisecond) == nil {
			c.verifyMarks()
		}
	})

	c.disturb(ctx, d)
	endWriting()
	writers.Wait()
	c.settle(ctx, stores)
	endVerifying()
	verifier.Wait()
	c.verifyMarks()
	for _, ck := range c.checks {
		c.Logf("%s: %d events, %d marks, of which %d verified and %d compacted, %d reports", ck.name, ck.events, ck.marks,
			ck.verified, ck.compacted, ck.troubles)
	}
	c.Logf("%d writes; own writes: %d, read after: %d, lost: %d", c.writes.Load(), own.writes, own.reads, own.lost)
	if c.writes.Load() < enoughWrites {
		c.Errorf("only %d writes", c.writes.Load())
	}
}

// write changes objects at random until ctx ends.
func (c *chaos) write(ctx context.Context, random *rand.Rand) {
	cms, ws := For[corev1.ConfigMap](c.steady), For[widget](c.steady, widgetKind)
	for n := 0; ctx.Err() == nil; n++ {
		ns := chaosNamespaces[random.IntN(len(chaosNamespaces))]
		name := fmt.Sprintf("o%d", random.IntN(25))
		om := metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"odd": strconv.Itoa(random.IntN(2))}}
		note := fmt.Sprintf("%s|%d|%s", name, n, strings.Repeat("x", random.IntN(2000)))
		cm := &corev1.ConfigMap{ObjectMeta: om, Data: map[string]string{"note": note}}
		w := &widget{Object: Object{ObjectMeta: om}}
		w.Spec.Note = note
		// Most of these writes fail as they must, because the object exists or does not
		// exist.
		var err error
		switch random.IntN(10) {
		case 0:
			err = cms.In(ns).Delete(ctx, name)
		case 1:
			err = ws.In(ns).Delete(ctx, name)
		case 2: // recreated at once
			_ = cms.In(ns).Delete(ctx, name)
			_, err = cms.Create(ctx, cm)
		case 3, 4, 5:
			if _, err = cms.Update(ctx, cm); err != nil {
				_, err = cms.Create(ctx, cm)
			}
		case 6:
			_, err = ws.Apply(ctx, w)
		default:
			if _, err = ws.In(ns).Patch(ctx, name, "application/merge-patch+json",
				fmt.Appendf(nil, `{"metadata":{"labels":{"odd":"%d"}},"spec":{"note":%q}}`, random.IntN(2), note)); err != nil {
				_, err = ws.Create(ctx, w)
			}
		}
		if err == nil {
			c.writes.Add(1)
		} else {
			_ = sleep(ctx, 2*time.Millisecond)
		}
		_ = sleep(ctx, time.Duration(random.IntN(3))*time.Millisecond)
	}
}

// disturb disturbs the server and the connections in one way after another.
func (c *chaos) disturb(ctx context.Context, d time.Duration) {
	end := time.Now().Add(d)
	api := c.cluster.APIServer()
	pause := func(most time.Duration) { _ = sleep(ctx, time.Duration(c.random.Int64N(int64(most)))) }
	try := func(what string, err error) {
		if err != nil {
			c.Errorf("%s: %v", what, err)
		}
	}
	pause(time.Second)
	acts := []struct {
		name string
		do   func()
	}{
		{"cut", c.proxy.cut},
		{"cut thrice", func() {
			for range 3 {
				c.proxy.cut()
				pause(500 * time.Millisecond)
			}
		}},
		{"go dark", func() {
			c.proxy.darken()
			pause(6 * time.Second)
			c.proxy.light()
		}},
		{"go dark and cut", func() {
			c.proxy.darken()
			pause(3 * time.Second)
			c.proxy.cut()
			c.proxy.light()
		}},
		{"pause the server", func() {
			try("pause", api.Pause(ctx))
			pause(3 * time.Second)
			try("resume", api.Resume(ctx))
		}},
		{"kill the server", func() {
			try("kill", api.Kill(ctx))
			pause(time.Second)
			try("start", api.Start(ctx))
		}},
		{"compact and restart", func() {
			// The proxy keeps the watches away while history goes on and is dropped.
			c.proxy.darken()
			pause(time.Second)
			try("compact", c.cluster.Compact(ctx))
			try("restart", api.Restart(ctx))
			c.proxy.cut()
			c.proxy.light()
		}},
	}
	order := c.random.Perm(len(acts)) // each act at least once, if there is time
	// A machine that is busy with other work gets as much time as it needs.
	late := end.Add(3 * time.Minute)
	more := func() bool { return c.writes.Load() < enoughWrites && time.Now().Before(late) }
	for i := 0; time.Now().Before(end) || more(); i++ {
		act := acts[c.random.IntN(len(acts))]
		if i < len(order) {
			act = acts[order[i]]
		}
		c.Logf("%s", act.name)
		act.do()
		pause(2 * time.Second)
	}
}

// verifyMarks compares the states at sync marks with the server's states.
func (c *chaos) verifyMarks() {
	for _, ck := range c.checks {
		for _, m := range ck.takeMarks() {
			asking, cancel := context.WithTimeout(c.Context(), time.Minute)
			ns := ""
			if len(ck.namespace) == 1 {
				ns = ck.namespace[0]
			}
			want, err := serverAt(asking, ck.truth, ns, m.rv)
			cancel()
			switch {
			case err != nil:
				c.Errorf("%s: list at %s: %v", ck.name, m.rv, err)
			case want == nil:
				ck.compacted++
			default:
				ck.verified++
				if diff := differ(m.state, want); diff != "" {
					c.Errorf("%s: at the mark of %s:%s", ck.name, m.rv, diff)
				}
			}
		}
	}
}

// settle waits until every watch and store shows the server's objects.
func (c *chaos) settle(ctx context.Context, stores map[*checkedWatch]func() map[Key]version) {
	deadline := time.Now().Add(time.Minute)
	for _, ck := range c.checks {
		want := make(map[Key]version)
		for ns := range ck.truth.eachNamespace() {
			part, err := serverAt(ctx, ck.truth, ns, "")
			if err != nil {
				c.Fatal(err)
			}
			for k, v := range part {
				want[k] = v
			}
		}
		for {
			diff := differ(ck.now(), want)
			if all := stores[ck]; diff == "" && all != nil {
				diff = differ(all(), want)
			}
			if diff == "" {
				break
			}
			if time.Now().After(deadline) {
				c.Errorf("%s does not become equal to the server's objects:%s", ck.name, diff)
				break
			}
			_ = sleep(ctx, 100*time.Millisecond)
		}
	}
}
