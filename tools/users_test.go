package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// usedKube has a symbol for each kind of user, and symbols without one.
const usedKube = `package kube

import "io"

const ByOperator = 1

func ByExample() {}
func ByGuideName() {}
func ByGuideBlock() {}
func ByTemplate() Result { return 0 }
func ByOperatorTest() {}
func ByOperatorAndExample(Reader) {}

// ByPeer opens a door. Its counterpart in
// controller-runtime is door.Open.
func ByPeer() {}

// NotByPeer has no counterpart, which kube-rs is proud of.
func NotByPeer() {}

func OnlyByOurPackage(Hidden) {}
func ByNobody() {}

type Result int

type Hidden int

// Parts is reached by fields of a wire format alone.
type Parts struct {
	Small []*Part ` + "`json:\"small\"`" + `
	own   *Unseen
}

type Part struct {
	Of map[string]Piece ` + "`json:\"of\"`" + `
}

type Piece int

type Unseen struct{}

// Orphan has no user, so its fields are none.
type Orphan struct {
	Lost Lost ` + "`json:\"lost\"`" + `
}

type Lost int

type Reader interface{ Count() int }

type Options[T any] struct {
	Set     T
	Guided  T
	Peer    T // the counterpart is Peers of client-go
	Bare    T
	Wire    Parts ` + "`json:\"wire\"`" + `
	Unset   int
	private int
}

func (*Options[T]) Close() error { return nil }
func (*Options[T]) Unwrap() error { return io.EOF }
func (*Options[T]) Count() int { return 0 }
func (*Options[T]) Open() error { return nil }
func (*Options[T]) Called() {}
func (*Options[T]) private2() {}
`

func usersRepo(t *testing.T, more map[string]string) *Repo {
	t.Helper()
	const mod = "\n\ngo 1.26.0\n"
	files := map[string]string{
		"go.work":      "go 1.26.0\n\nuse (\n\t.\n\t./operators\n)\n",
		"go.mod":       "module " + prefix + mod,
		"kube/kube.go": usedKube,
		"kube/example_test.go": "package kube_test\n\nimport \"" + prefix + "/kube\"\n\n" +
			"func Example() { kube.ByExample(); kube.ByOperatorAndExample(nil) }\n",
		"kube/shown_test.go": "package kube_test\n\nimport \"" + prefix + "/kube\"\n\n" +
			"func shown() {\n\tkube.ByGuideBlock()\n}\n\nfunc hidden() { kube.ByNobody() }\n",
		"plan/plan.go": "package plan\n\nimport \"" + prefix + "/kube\"\n\n" +
			"// P plans. The counterpart is P of kro.\nfunc P() { kube.OnlyByOurPackage(0) }\n",
		"cmd/pintle/template/main.go": "package main\n\nimport \"" + prefix + "/kube\"\n\nfunc main() { kube.ByTemplate() }\n",
		"operators/go.mod":            "module " + prefix + "/operators" + mod,
		"operators/book/main.go": "package main\n\nimport \"" + prefix + "/kube\"\n\n" +
			"func main() {\n\to := kube.Options[string]{Set: \"\"}\n\to.Called()\n" +
			"\tprintln(kube.ByOperator)\n\tkube.ByOperatorAndExample(&o)\n}\n",
		"operators/book/book_test.go": "package main\n\nimport \"" + prefix + "/kube\"\n\nfunc test() { kube.ByOperatorTest() }\n",
		"README.md":                   "# Read\n",
		"docs/guide.md": "Call `kube.ByGuideName`, with `kube.Options{Guided: 1}` or `Bare`; ByNobody and kube.ByNobody are prose.\n\n" +
			"<!-- snippet: kube/shown_test.go -->\n```go\nkube.ByGuideBlock()\n```\n",
	}
	for name, text := range more {
		files[name] = text
	}
	repo, err := FindRepo(write(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

func TestUsers(t *testing.T) {
	repo := usersRepo(t, nil)
	w, err := loadWorkspace(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	guides, err := readGuides(repo.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range findUsers(w, guides) {
		got = append(got, s.name+": "+s.user.name)
	}
	want := []string{
		"kube.ByExample: kube/example_test.go",
		"kube.ByGuideBlock: docs/guide.md",
		"kube.ByGuideName: docs/guide.md",
		"kube.ByNobody: ",
		"kube.ByOperator: operators/book",
		"kube.ByOperatorAndExample: operators/book",
		"kube.ByOperatorTest: test of operators/book",
		"kube.ByPeer: counterpart in controller-runtime",
		"kube.ByTemplate: cmd/pintle/template",
		"kube.Hidden: ",
		"kube.NotByPeer: ",
		"kube.OnlyByOurPackage: ",
		"kube.Lost: ",
		"kube.Orphan: ",
		"kube.Part: type in kube.Parts",
		"kube.Parts: type in kube.Options",
		"kube.Piece: type in kube.Part",
		"kube.Unseen: ",
		"kube.Options.Bare: docs/guide.md",
		"kube.Options.Called: operators/book",
		"kube.Options.Close: interface io.Closer",
		"kube.Options.Count: interface kube.Reader",
		"kube.Options.Guided: docs/guide.md",
		"kube.Options.Open: ",
		"kube.Options.Peer: counterpart in client-go",
		"kube.Options.Set: operators/book",
		"kube.Options.Unset: ",
		"kube.Options.Unwrap: interface errors.Unwrap",
		"kube.Options: operators/book",
		"kube.Reader: type in kube.ByOperatorAndExample",
		"kube.Result: type in kube.ByTemplate",
		"plan.P: counterpart in kro",
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := difference(want, got); len(diff) > 0 {
		t.Errorf("users differ (-want +got):\n%s", strings.Join(diff, "\n"))
	}
}

func TestASymbolWithoutUserFails(t *testing.T) {
	const used = "package kube\n\nfunc Used() {}\n"
	const example = "package kube_test\n\nimport \"" + prefix + "/kube\"\n\nfunc Example() { kube.Used() }\n"
	const book = "package main\n\nfunc main() {}\n"
	for _, test := range []struct {
		name, kube string
		before     string
		want       error
		file       string
	}{
		{"each has one", used, "", nil, "kube.Used: kube/example_test.go\n"},
		{"one has none", used + "\nfunc Unused() {}\n", "", errNoUser, "kube.Used: kube/example_test.go\n"},
		{"one had none before", used + "\nfunc Unused() {}\n", "kube.Unused: nobody yet\n", nil,
			"kube.Unused: nobody yet\nkube.Used: kube/example_test.go\n"},
		{"one has one now", used, "kube.Used: nobody yet\n", nil, "kube.Used: kube/example_test.go\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			repo := usersRepo(t, map[string]string{
				"kube/kube.go": test.kube, "kube/example_test.go": example, "kube/shown_test.go": "package kube_test\n",
				"plan/plan.go": "package plan\n", "cmd/pintle/template/main.go": book, "operators/book/main.go": book,
				"operators/book/book_test.go": "package main\n", "docs/guide.md": "# Guide\n", "api/users.txt": test.before,
			})
			if err := checkUsers(t.Context(), repo, false); !errors.Is(err, errStale) {
				t.Errorf("without a golden file: got %v, want errStale", err)
			}
			if err := checkUsers(t.Context(), repo, true); !errors.Is(err, test.want) {
				t.Errorf("-write: got %v, want %v", err, test.want)
			}
			if data, err := os.ReadFile(filepath.Join(repo.Dir, "api", "users.txt")); err != nil || string(data) != test.file {
				t.Errorf("-write wrote %q, %v, want %q", data, err, test.file)
			}
			if err := checkUsers(t.Context(), repo, false); !errors.Is(err, test.want) {
				t.Errorf("with its golden file: got %v, want %v", err, test.want)
			}
		})
	}
}

func TestCounterpart(t *testing.T) {
	for _, test := range []struct{ comment, want string }{
		{"Its counterpart in controller-runtime\nis metrics.Registry.", "controller-runtime"},
		{"X waits. The counterparts are EvictV1 of client-go\nand Api::evict of kube-rs. More.", "client-go"},
		{"They are counterparts of kube-rs's wait::conditions.", "kube-rs"},
		{"Java Operator SDK and kro have no counterpart.", ""},
		{"Renew is a time. client-go calls it RetryPeriod.", "client-go"},
		{"The counterpart of Open is Close.", ""},
		{"kube-rs waits. The counterpart is Close.", ""},
		{"", ""},
	} {
		if got := counterpart(test.comment); got != test.want {
			t.Errorf("%q: got %q, want %q", test.comment, got, test.want)
		}
	}
}
