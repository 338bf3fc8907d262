package api

import (
	"os"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// TestDefinitions installs the definitions: the API server checks schemas and rules.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Start(t, kubetest.Options{})
	client := optest.Client(t, cluster.Config())
	if err := crd.Install(t.Context(), client, Definitions...); err != nil {
		t.Fatal(err)
	}
}
