package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/internal/settled"
	"github.com/pintle-go/pintle/ready"
)

// history has the revisions of etcd at which objects were created and became ready. All objects
// of a cluster share one counter, so that revisions of different kinds can be compared.
type history struct {
	mu             sync.Mutex
	created, ready map[string]int64 // by kind and name
}

// record begins to watch. It ends with the test.
func record(w *world) *history {
	h := &history{created: map[string]int64{}, ready: map[string]int64{}}
	ctx, cancel := context.WithCancel(context.Background())
	var watching, synced sync.WaitGroup
	w.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	follow(ctx, h, &watching, &synced, "cluster", w.clusters.Reader, settled.Cluster)
	follow(ctx, h, &watching, &synced, "project", w.projects.Reader, settled.Project)
	follow(ctx, h, &watching, &synced, "branch", w.branches.Reader, settled.Branch)
	follow(ctx, h, &watching, &synced, "role", w.roles.Reader, settled.Role)
	follow(ctx, h, &watching, &synced, "content", w.contents.Reader, settled.Database)
	follow(ctx, h, &watching, &synced, "endpoint", w.endpoints.Reader, settled.Endpoint)
	follow(ctx, h, &watching, &synced, "secret", w.secrets.Reader, ready.Of)
	follow(ctx, h, &watching, &synced, "set", w.sets.Reader, ready.Of)
	follow(ctx, h, &watching, &synced, "deployment", w.deployments.Reader, ready.Of)
	synced.Wait()
	return h
}

func follow[T any, P interface {
	*T
	metav1.Object
}](
	ctx context.Context, h *history, watching, synced *sync.WaitGroup, kind string, objects kube.Reader[T],
	judge func(*T) ready.State,
) {
	synced.Add(1)
	var once sync.Once
	watching.Go(func() {
		defer once.Do(synced.Done)
		for event, err := range objects.Watch(ctx) {
			switch {
			case err != nil:
				continue // it goes on by itself
			case event.Type == kube.Synced:
				once.Do(synced.Done)
			case event.Type == kube.Added, event.Type == kube.Modified:
				at, err := strconv.ParseInt(P(event.Object).GetResourceVersion(), 10, 64)
				if err == nil {
					h.note(kind+" "+P(event.Object).GetName(), at, judge(event.Object).Phase == ready.Ready)
				}
			}
		}
	})
}

func (h *history) note(name string, at int64, ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.created[name] == 0 {
		h.created[name] = at
	}
	if ready && h.ready[name] == 0 {
		h.ready[name] = at
	}
}

// order has objects and those that must be ready before they are created.
var order = map[string][]string{
	"secret orders-controller":     {"secret orders-keys"},
	"deployment orders-controller": {"set orders-database", "secret orders-controller"},
	"set orders-store":             {"secret orders-store"},
	"set orders-database":          {"secret orders-database"},
	"set orders-safekeeper-1":      {"set orders-store", "deployment orders-broker", "secret orders-safekeeper"},
	"set orders-safekeeper-2":      {"set orders-store", "deployment orders-broker", "secret orders-safekeeper"},
	"set orders-safekeeper-3":      {"set orders-store", "deployment orders-broker", "secret orders-safekeeper"},
	"set orders-pageserver-1":      {"set orders-store", "deployment orders-broker", "deployment orders-controller"},
	"project orders":               {"cluster orders", "set orders-safekeeper-3", "set orders-pageserver-1"},
	"branch orders-main":           {"project orders"},
	"role orders-app":              {"branch orders-main"},
	"content orders-app":           {"role orders-app"},
	"endpoint orders":              {"branch orders-main", "role orders-app", "content orders-app"},
	"set orders-compute":           {"secret orders-compute"},
	"secret orders-connection":     {"endpoint orders", "set orders-compute"},
}

// check compares the history with the order.
func (h *history) check(w *world) {
	w.Helper()
	for _, name := range slices.Sorted(maps.Keys(order)) {
		for _, need := range order[name] {
			var created, ready int64
			kubetest.Eventually(w, "the watches have seen "+name+" and "+need, func() error {
				h.mu.Lock()
				defer h.mu.Unlock()
				if created, ready = h.created[name], h.ready[need]; created == 0 || ready == 0 {
					return fmt.Errorf("created at revision %d, ready at %d", created, ready)
				}
				return nil
			})
			if created <= ready {
				w.Errorf("%s was created at revision %d, and %s became ready at %d", name, created, need, ready)
			}
		}
	}
}
