package branch_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// TestKeysDeleted has somebody delete the Secret of a cluster's keys. The cluster is not gone, nor are the
// timelines: a branch that is deleted waits until they can be reached.
func TestKeysDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.project("app", nil)
	tenant := w.projectReady("app").Status.TenantID
	id := strings.Repeat("e", 32)
	_, err := w.storage.CreateTimeline(w.soon(), tenant, upstream.NewTimeline{ID: id, PGVersion: 17})
	w.ok(err)
	w.branch("trunk", "", func(b *api.NeonBranch) { b.Spec.TimelineID = id })
	w.branchReady("trunk")
	secrets := kube.For[corev1.Secret](w.client).In(w.namespace)
	w.kill()
	w.ok(secrets.Delete(w.soon(), cluster.KeysName("main")))
	w.ok(w.branches.Delete(w.soon(), "trunk"))
	w.start()
	w.branch("later", "", func(b *api.NeonBranch) { b.Spec.Project = "none" })
	w.says("later", "it does not exist")
	keys := &corev1.Secret{Data: map[string][]byte{"private.pem": w.lab.Key.PEM()}}
	keys.Name = cluster.KeysName("main")
	_, err = secrets.Create(w.soon(), keys)
	w.ok(err)
	w.ok(w.branches.UntilGone(w.soon(), "trunk"))
	if _, there := w.timelines(tenant)[id]; there {
		t.Error("the timeline is left in the storage")
	}
}
