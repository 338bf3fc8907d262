package kube_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// impatientServer ends requests after five seconds, and its history each second.
var impatientServer = kubetest.Options{Private: true, ServerOnly: true, APIServerArgs: []string{
	"--request-timeout=5s", "--etcd-compaction-interval=1s",
	// The snapshots of this feature learn of a compaction up to a minute later.
	"--feature-gates=ListFromCacheSnapshot=false",
}}

// TestListSlowly lists page by page in a loop that takes longer than the server allows
// for a request. The list is larger than the buffers on the way, and the loop lasts
// longer than the server's continue tokens live.
func TestListSlowly(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := startOn(t, impatientServer)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	const n = 520 // two pages
	createMany(t, maps, n, func(i int) *corev1.ConfigMap {
		cm := configMap(fmt.Sprintf("cm-%04d", i))
		cm.BinaryData = map[string][]byte{"noise": make([]byte, 20<<10)}
		_, _ = rand.Read(cm.BinaryData["noise"])
		return cm
	})
	var all []string
	calls := s.during(func() {
		for cm, err := range maps.List(soon(t)) {
			must(t, err)
			all = append(all, cm.Name)
			if len(all) == 10 {
				time.Sleep(6 * time.Second) // a slow reader
				// A later token than the next one has expired, so the next one has
				// expired too.
				expire(t, s, maps)
			}
		}
	})
	all = slices.DeleteFunc(all, func(n string) bool { return n == "other" })
	if len(all) != n || !slices.IsSorted(all) || len(slices.Compact(all)) != n {
		t.Errorf("listed %d objects, want each of %d once", len(all), n)
	}
	expired := 0
	for _, c := range calls {
		if c.code == 410 {
			expired++
		}
	}
	if expired != 1 {
		t.Errorf("%d continue tokens expired; the test wants one:%s", expired, rows(calls))
	}
}

// expire writes until the server has forgotten the present version.
func expire(t *testing.T, s *server, maps kube.Resource[corev1.ConfigMap]) {
	t.Helper()
	now := got(maps.Apply(soon(t), configMap("other", "at", "now")))(t).ResourceVersion
	client := got(rest.HTTPClientFor(s.cluster.Config()))(t)
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	query := url.Values{"limit": {"1"}, "resourceVersion": {now}, "resourceVersionMatch": {"Exact"}}
	old := s.cluster.Config().Host + "/api/v1/namespaces/" + s.namespace + "/configmaps?" + query.Encode()
	kubetest.Eventually(t, "resource version "+now+" expires", func() error {
		got(maps.Apply(soon(t), configMap("other", "at", time.Now().String())))(t)
		resp := got(client.Get(old))(t)
		resp.Body.Close()
		if resp.StatusCode != http.StatusGone {
			return fmt.Errorf("a list at it is answered with status %d", resp.StatusCode)
		}
		return nil
	})
}
