package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/cmd/dev"}

func TestMain(m *testing.M) {
	optest.Main(m, &binary)
}

const source = `package main

import (
	_ "embed"
	"fmt"
	"time"

	"example.com/hello/word"
)

//go:embed name.txt
var name string

func main() {
	fmt.Println(word.Hello, name)
	time.Sleep(time.Hour)
}
`

// TestLoop edits the sources of a program as a developer does.
func TestLoop(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	dir := t.TempDir()
	save := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		// Editors save like this: another file replaces the old one.
		if err := os.WriteFile(file+"~", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+"~", file); err != nil {
			t.Fatal(err)
		}
	}
	word := func(hello string) { save("word/word.go", "package word\n\nconst Hello = "+hello+"\n") }
	save("go.mod", "module example.com/hello\n\ngo 1.26\n")
	save("main.go", source)
	save("name.txt", "world")
	word(`"hello"`)

	p, err := program.Start(program.Spec{
		Path: binary.Path(t),
		Args: []string{"."},
		Dir:  dir,
		Env: []string{
			"CLUSTER=current", "GOWORK=off", "TMPDIR=" + t.TempDir(),
			"KUBECONFIG=" + optest.Kubeconfig(t, cluster.Config(), "default", ""),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background(), time.Minute); err != nil {
			t.Error(err)
		}
		if lines, _ := p.Lines(); t.Failed() {
			t.Logf("%q", lines)
		}
	})
	optest.Expect(t, p, "| hello world")
	optest.Expect(t, p, "watching 2 directories")
	begun := time.Now()
	word(`"good morning"`)
	optest.Expect(t, p, "| good morning world")
	t.Logf("restarted %s after it was saved", time.Since(begun).Round(10*time.Millisecond))
	save("name.txt", "moon")
	optest.Expect(t, p, "| good morning moon")

	word(`nonsense`)
	optest.Expect(t, p, "undefined: nonsense")
	optest.Expect(t, p, "does not compile: the running program continues")
	save("main_test.go", "package main") // the program does not contain it
	word(`"good " + "morning"`)
	optest.Expect(t, p, "is unchanged")
	word(`"good night"`)
	optest.Expect(t, p, "| good night moon")

	if err := p.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	optest.Expect(t, p, "ended; nothing is left running")
	if code := optest.ExpectEnd(t, p); code != 0 {
		t.Errorf("status %d", code)
	}
	starts := 0
	lines, _ := p.Lines()
	for _, line := range lines {
		if strings.Contains(line, " runs, process ") {
			starts++
		}
	}
	if starts != 4 {
		t.Errorf("it was started %d times, want 4\n%q", starts, lines)
	}
}
