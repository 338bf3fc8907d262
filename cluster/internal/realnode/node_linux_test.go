package realnode

import (
	"testing"
)

func TestRealNode(t *testing.T) {
	requireRealNode(t)
	c := startCluster(t, t.TempDir(), &Node{})
	defer c.explain()
	t.Log(c.kubectl("get", "nodes", "-o", "wide"))
}
