package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/operators/neon/api"
	standin "github.com/pintle-go/pintle/operators/neon/internal/standin/pageserver"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// TestPageserverFiles lets the stand-in read the files of a pageserver. It knows all that is in them. A
// small volume keeps its pages.
func TestPageserverFiles(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*api.NeonCluster){
		"without TLS": func(*api.NeonCluster) {}, "with TLS": withTLS,
	} {
		c := sample()
		change(c)
		files, err := pageserverFiles(c, 1, token.New())
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for file, text := range files {
			text := strings.ReplaceAll(string(text), "/data/.neon", dir)
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := standin.Open(dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(p.Ignored) > 0 {
			t.Errorf("%s: the program would ignore %q", name, p.Ignored)
		}
		if want := (standin.Eviction{MaxUsage: 80, Period: "60s"}); p.Eviction != want {
			t.Errorf("%s: pages leave the volume by %+v, want %+v", name, p.Eviction, want)
		}
	}
}
