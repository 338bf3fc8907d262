package kube_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	corev1 "k8s.io/api/core/v1"
)

// impatientServer ends requests after five seconds, and its history each second.
var impatientServer = kubetest.Options{Private: true, ServerOnly: true, APIServerArgs: []string{
	"--request-timeout=5s", "--etcd-compaction-interval=1s",
}}

// TestListSlowly lists page by page in a loop that takes longer than the server
// lets a request last, over more than fits into the buffers on the way, and
// longer than its continue tokens live.
func TestListSlowly(t *testing.T) {
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
				// What the continue token names is compacted meanwhile.
				for range 16 {
					got(maps.Apply(soon(t), configMap("other", "at", time.Now().String())))(t)
					time.Sleep(500 * time.Millisecond)
				}
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
