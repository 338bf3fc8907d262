package kubetest

import (
	"strings"
	"testing"
)

// What cannot be meant is an error before any cluster starts.
func TestOpenRefuses(t *testing.T) {
	if _, err := Open(t.Context(), Options{Nodes: -3}); err == nil || !strings.Contains(err.Error(), "Nodes is -3") {
		t.Errorf("a negative number of nodes: %v", err)
	}
	t.Setenv(clusterVariable, "Current")
	if _, err := Open(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), `want current`) {
		t.Errorf("a typing error: %v", err)
	}
}
