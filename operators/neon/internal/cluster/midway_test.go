package cluster

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/s3test"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/ready"
)

// podsOf returns the pods of a component.
func (w *world) podsOf(component string) map[string]types.UID {
	w.Helper()
	all := w.running()
	maps.DeleteFunc(all, func(name string, _ types.UID) bool { return !strings.Contains(name, "-"+component+"-") })
	return all
}

// constant sees for some time that something stays as it was.
func constant[T any](w *world, what string, before T, of func() T) {
	w.Helper()
	for range 200 {
		w.kubelet()
		time.Sleep(50 * time.Millisecond) // nothing may happen
	}
	if diff := cmp.Diff(before, of()); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestCredentialsMidway changes the keys of the object store again while the programs are restarted with
// other ones. Keys that are refused or missing restart nothing.
func TestCredentialsMidway(t *testing.T) {
	t.Parallel()
	store := &keyring{valid: []string{s3test.AccessKey, "second", "third"}, objects: map[string][]byte{}}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	w := newWorld(t, func(c *api.NeonCluster) { c.Spec.ObjectStore.S3.Endpoint = server.URL })
	w.timeline(tenantID, 1)
	w.rests()
	servers := func() map[string]types.UID { return w.podsOf("pageserver") }
	login := func(key string) { w.put("bucket", map[string]string{accessKey: key, secretKey: "secret"}) }
	drains := func(c *api.NeonCluster) bool {
		return c.Status.PageserverRoll != nil && c.Status.PageserverRoll.Step == draining
	}

	w.Log("refused keys come while a pageserver hands its data to others")
	first := w.digestOf("main-pageserver-1")
	w.lab.Controller.Hold(0)
	login("second")
	w.until("a pageserver is drained", drains)
	before := servers()
	login("refused")
	w.until("the operator has tried the keys", says("bucket", "correct the keys in Secret bucket"))
	w.lab.Controller.Release()
	constant(w, "the pageservers after keys that are refused", before, servers)

	w.Log("the keys are corrected")
	login("second")
	w.until("all are restarted", func(c *api.NeonCluster) bool {
		return isReady(c) && w.annotated(first, "safekeeper", "pageserver")
	})

	w.Log("the Secret goes while a pageserver hands its data to others")
	second := w.digestOf("main-pageserver-1")
	w.lab.Controller.Hold(0)
	login("third")
	w.until("a pageserver is drained", drains)
	before = servers()
	w.put("bucket", map[string]string{accessKey: "third"})
	w.until("the operator says so", says("bucket", secretKey))
	w.lab.Controller.Release()
	constant(w, "the pageservers without a key", before, servers)
	login("third")
	w.until("all are restarted", func(c *api.NeonCluster) bool {
		return isReady(c) && w.annotated(second, "safekeeper", "pageserver")
	})

	w.Log("a safekeeper falls behind while the keys are refused")
	third := w.digestOf("main-safekeeper-1")
	login("refused")
	w.until("the operator has tried the keys", says("bucket", "correct the keys in Secret bucket"))
	constant(w, "the turn of a safekeeper", 0, func() int64 {
		c, err := w.clusters.Get(t.Context(), "main")
		w.ok(err)
		return c.Status.SafekeeperTurn
	})
	w.lab.Keepers[2].Faults.Add(wire.Fault{Method: "GET", Path: "/timeline/", Status: 503})
	login("second")
	changed := func() bool {
		return slices.ContainsFunc([]string{"main-safekeeper-1", "main-safekeeper-2", "main-safekeeper-3"},
			func(set string) bool { return w.digestOf(set) != third })
	}
	w.until("the restarts wait for safekeeper 2", func(c *api.NeonCluster) bool {
		return changed() || says("safekeeper-turn", "on safekeeper 2")(c)
	})
	if changed() {
		t.Error("a safekeeper is restarted while another one is behind")
	}
	w.lab.Keepers[2].Faults.Clear()
	w.until("all are restarted", func(c *api.NeonCluster) bool {
		return isReady(c) && w.annotated(third, "safekeeper", "pageserver")
	})
}

// TestLostWithoutCredentials loses a safekeeper while the spec names a Secret that is not there. Its timelines move
// to the others all the same.
func TestLostWithoutCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.NeonCluster) { c.Spec.Safekeepers.Count = 4 })
	w.timeline(tenantID, 1)
	lost := w.located(tenantID)[0]
	w.change(func(c *api.NeonCluster) {
		c.Spec.ObjectStore.S3.SecretName = "nowhere"
		c.Spec.Safekeepers.Lost = []int64{lost}
	})
	w.until("the safekeeper has no timelines", func(c *api.NeonCluster) bool {
		return slices.ContainsFunc(c.Status.Safekeepers, func(m api.Member) bool { return m.ID == lost && m.Evacuated })
	})
	if at := w.located(tenantID); slices.Contains(at, lost) {
		t.Errorf("the timeline is on the safekeepers %v, and %d is lost", at, lost)
	}
}

// TestCredentialsOfAzure changes the image while the Secret of a store is missing that the operator cannot try. The
// programs that read the Secret go on until it is there.
func TestCredentialsOfAzure(t *testing.T) {
	t.Parallel()
	login := map[string]string{"AZURE_STORAGE_ACCOUNT": "account", "AZURE_STORAGE_ACCESS_KEY": "secret"}
	w := newWorldOf(t, trust.Terms{}, func(c *api.NeonCluster) {
		c.Spec.ObjectStore = api.ObjectStore{Azure: &api.Azure{Container: "data", Region: "north", SecretName: "azure"}}
	}, func(w *world) { w.secret("azure", login) })
	w.timeline(tenantID, 1)
	w.ok(w.secrets.Delete(t.Context(), "azure"))
	w.until("the operator has seen that", func(*api.NeonCluster) bool {
		_, err := w.operator.Secrets.In(w.ns).Cached().Get(t.Context(), "azure")
		return apierrors.IsNotFound(err)
	})
	w.change(func(c *api.NeonCluster) { c.Spec.Image = "neon:2" })
	const missing = "make Secret azure with the keys AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_ACCESS_KEY"
	members := func() []map[string]types.UID {
		return []map[string]types.UID{w.podsOf("safekeeper"), w.podsOf("pageserver")}
	}
	before := members()
	w.until("the operator says so", func(c *api.NeonCluster) bool {
		return says("safekeeper-turn", missing)(c) && says("pageserver-roll", missing)(c)
	})
	constant(w, "the pods without the Secret", before, members)
	w.secret("azure", login)
	w.until("all have the image", func(c *api.NeonCluster) bool { return isReady(c) && w.updated("neon:2") })
}

// TestTried has probes of a store or database, which tried the credentials that are wanted or others.
func TestTried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is, want, failure string
		ready             bool
	}{
		"the same":         {"a", "a", "", true},
		"no credentials":   {"", "", "", true},
		"refused":          {"a", "a", "refused", false},
		"others":           {"b", "a", "", false},
		"others, refused":  {"b", "a", "refused", false},
		"they are missing": {"a", "", "", false},
	} {
		if got := tried(c.is, c.want, c.failure); (got.Phase == ready.Ready) != c.ready {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
