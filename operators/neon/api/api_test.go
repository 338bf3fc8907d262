package api

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDefinitions installs the definitions: the API server checks schemas and rules.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Start(t, kubetest.Options{})
	client := optest.Client(t, cluster.Config())
	if err := crd.Install(t.Context(), client, Definitions...); err != nil {
		t.Fatal(err)
	}
}
