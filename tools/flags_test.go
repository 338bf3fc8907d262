package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Kubernetes is compiled by the cluster, by the tools, by golangci-lint's dependencies and in CI's
// look at the cache. With other flags each would have a cache of its own, of several GB.
func TestFlagsOfKubernetes(t *testing.T) {
	const flags = "-trimpath -gcflags=all=-dwarf=false"
	for _, file := range []string{"Makefile", ".ci/run", "tools/repo.go", "cluster/internal/build/source.go"} {
		data, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), flags) {
			t.Errorf("%s compiles with other flags than %s", file, flags)
		}
	}
}
