package settled

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/ready"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	c := new(api.NeonCluster)
	if s := Cluster(c); s.Phase != ready.Waiting {
		t.Errorf("a new cluster is %+v", s)
	}
	c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
	if s := Cluster(c); s.Phase != ready.Ready {
		t.Errorf("a ready cluster is %+v", s)
	}
	c.Generation, c.Status.ObservedGeneration = 2, 1
	if s := Cluster(c); s.Phase != ready.Waiting {
		t.Errorf("a changed cluster is %+v", s)
	}
}

func TestRole(t *testing.T) {
	t.Parallel()
	if s := Role(new(api.NeonRole)); s.Phase != ready.Waiting {
		t.Errorf("a new role is %+v", s)
	}
}
