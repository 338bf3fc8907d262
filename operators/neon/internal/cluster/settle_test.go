package cluster

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// refusal refuses the changes of a StatefulSet, as an admission webhook can.
type refusal struct {
	w  *world
	to http.RoundTripper
}

func (r refusal) RoundTrip(request *http.Request) (*http.Response, error) {
	name, _ := r.w.refused.Load().(string)
	if name == "" || request.Method != http.MethodPatch || !strings.HasSuffix(request.URL.Path, "/statefulsets/"+name) {
		return r.to.RoundTrip(request)
	}
	_, _ = io.Copy(io.Discard, request.Body)
	request.Body.Close()
	return &http.Response{
		StatusCode: http.StatusForbidden, ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"a webhook says no"}`)),
	}, nil
}

// TestOneVolumeUnsettled takes a pageserver away whose StatefulSet takes no change, and adds a safekeeper.
// The pageserver alone waits.
func TestOneVolumeUnsettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.refused.Store(pageserverName("main", 2))
	w.change(func(c *api.NeonCluster) { c.Spec.Pageservers.Count, c.Spec.Safekeepers.Count = 1, 4 })
	w.until("the other members go on", func(c *api.NeonCluster) bool {
		return len(c.Status.Safekeepers) == 4 && c.Status.Safekeepers[3].State == "Active" &&
			says("pageserver/2", "a webhook says no")(c)
	})
	if _, err := w.sets.Get(t.Context(), pageserverName("main", 2)); err != nil {
		t.Errorf("nobody has settled what becomes of its volume, and: %v", err)
	}
	w.refused.Store("")
	w.until("the pageserver has left", w.servers(1))
	w.ready()
	w.until("its volume is gone", func(*api.NeonCluster) bool {
		_, err := w.claims.Get(t.Context(), "data-"+pageserverName("main", 2)+"-0")
		return apierrors.IsNotFound(err)
	})
}

// TestEndWithOneVolumeUnsettled deletes a cluster, of which a safekeeper's StatefulSet takes no change. The others
// end, and the programs that members need stay.
func TestEndWithOneVolumeUnsettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	stays := safekeeperName("main", 1)
	w.refused.Store(stays)
	w.ok(w.clusters.Delete(t.Context(), "main"))
	w.until("the other members have ended", func(c *api.NeonCluster) bool {
		ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
		return ready.Reason == "Ending" && strings.Contains(ready.Message, stays+" stays: ") &&
			strings.Contains(ready.Message, "a webhook says no") && strings.HasSuffix(ready.Message, ": "+stays+"-0")
	})
	if _, err := kube.For[appsv1.Deployment](w.client).In(w.ns).Get(t.Context(), "main-broker"); err != nil {
		t.Error(err)
	}
	w.refused.Store("")
	w.until("nothing is left", func(c *api.NeonCluster) bool { return c == nil && len(w.remains()) == 0 })
}

// TestWrongMembers has a NeonCluster find a damaged record of its members. It says so, and makes none.
func TestWrongMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.stop()
	mark := func(members string) {
		_, err := w.secrets.Patch(t.Context(), KeysName("main"), types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, membersAnnotation, members))
		w.ok(err)
	}
	keys, err := w.secrets.Get(t.Context(), KeysName("main"))
	w.ok(err)
	mark("{")
	c, err := w.clusters.Get(t.Context(), "main")
	w.ok(err)
	c.Status = api.ClusterStatus{}
	w.ok(w.clusters.Status().Update(t.Context(), c))
	w.start()
	w.until("the cluster says so", func(c *api.NeonCluster) bool {
		ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
		return ready != nil && ready.Reason == "WrongMembers" && strings.Contains(ready.Message, "Secret main-keys, which must be")
	})
	mark(keys.Annotations[membersAnnotation])
	c = w.ready()
	if c.Status.NextSafekeeper != 4 {
		t.Errorf("the next safekeeper is %d", c.Status.NextSafekeeper)
	}
}
