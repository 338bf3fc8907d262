package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/util/validation"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// website has names that are longer than those of the template and sort otherwise.
var website = names{
	name: "shop-websites", kind: "HTTPProxy", group: "web.example.com", version: "v2beta1",
	module: "example.com/shop/websites", pintle: "v0.1.0",
}

// TestSame writes the template under its own names, which changes nothing.
func TestSame(t *testing.T) {
	files, err := templateNames.files()
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "go.mod")
	for name, text := range files {
		want, err := os.ReadFile(filepath.Join("template", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, want) {
			t.Errorf("%s differs from the template", name)
		}
	}
	count := 0
	err = filepath.WalkDir("template", func(_ string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			count++
		}
		return err
	})
	if err != nil || count != len(files) {
		t.Errorf("%d files of %d: %v", len(files), count, err)
	}
}

// TestGolden compares a whole new operator with testdata/new.txt, which go test -update
// rewrites.
func TestGolden(t *testing.T) {
	files, err := website.files()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&got, "-- %s --\n%s", name, files[name])
	}
	golden := filepath.Join("testdata", "new.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Error("the new operator differs from testdata/new.txt: see the difference with go test -update and git diff")
	}
	for _, old := range []string{"gizmo", "Gizmo", "v1alpha1"} {
		if strings.Contains(got.String(), old) {
			t.Errorf("it contains %q, which is of the template", old)
		}
	}
}

// TestOddNames has the compiler and vet read new operators with odd names.
func TestOddNames(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go command")
	}
	dir := t.TempDir()
	for _, n := range []names{
		website,
		{name: "a", kind: "A", group: "a.b", version: "v1"},
		{name: "types", kind: "Type", group: "main.func", version: "v1"},
		{name: "error-operator", kind: "Error", group: "gizmo.example.org", version: "v1alpha1"},
		{name: "gizmo", kind: "Gizmos", group: "v1alpha1.gizmo", version: "v1"},
		{name: "operator", kind: "Operator", group: "operator.example.com", version: "v1"},
		{name: "series", kind: "Series", group: "data.example.com", version: "v1"},
		{name: strings.Repeat("x", 63), kind: "X" + strings.Repeat("z", 60), group: "example.com", version: "v10beta20"},
		{name: "test", kind: "Test", group: "example.com", version: "v1"},
	} {
		n.module, n.pintle = "example.com/odd", "v0.1.0"
		if err := n.check(); err != nil {
			t.Fatal(err)
		}
		if _, err := write(filepath.Join(dir, n.name), n); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, n.name, "go.mod")); err != nil { // the packages share one module
			t.Fatal(err)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "\ngo "+goVersion+"\n") {
		t.Errorf("pintle's own go.mod names another version of Go than a generated one, %s", goVersion)
	}
	_, rest, _ := strings.Cut(string(mod), "\n")
	mod = []byte("module example.com/odd\n" + rest)
	mod = fmt.Appendf(mod, "\nrequire %[1]s v0.1.0\n\nreplace %[1]s => %[2]s\n", "github.com/pintle-go/pintle", root)
	for name, data := range map[string][]byte{"go.mod": mod, "go.sum": sum} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", "-mod=mod", "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "gofmt", "-l", dir).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("gofmt: %v, %s", err, out)
	}
}

// TestBadNames has each wrong name refused with a message about it.
func TestBadNames(t *testing.T) {
	for want, change := range map[string]func(*names){
		`name "": it must be a DNS label`:                       func(n *names) { n.name = "" },
		`name "Shop": it must be a DNS label`:                   func(n *names) { n.name = "Shop" },
		`name "my_shop": it must be a DNS label`:                func(n *names) { n.name = "my_shop" },
		`name "a.b": it must be a DNS label`:                    func(n *names) { n.name = "a.b" },
		`name "9shops": it must be a DNS label`:                 func(n *names) { n.name = "9shops" },
		`name "../shop": it must be a DNS label`:                func(n *names) { n.name = "../shop" },
		`name "shop-": it must be a DNS label`:                  func(n *names) { n.name = "shop-" },
		"it has more than 63 characters":                        func(n *names) { n.name = strings.Repeat("a", 64) },
		`name "default": the operator runs in`:                  func(n *names) { n.name = "default" },
		`name "kube-system": the operator runs in`:              func(n *names) { n.name = "kube-system" },
		"--kind is missing":                                     func(n *names) { n.kind = "" },
		`--kind "website": it must be letters and digits`:       func(n *names) { n.kind = "website" },
		`--kind "Web-Site": it must be letters and digits`:      func(n *names) { n.kind = "Web-Site" },
		`--kind "Web_Site": it must be letters and digits`:      func(n *names) { n.kind = "Web_Site" },
		`--kind "Ärger": it must be letters and digits`:         func(n *names) { n.kind = "Ärger" },
		`--kind "Web Site": it must be letters and digits`:      func(n *names) { n.kind = "Web Site" },
		`--kind "TestMain": the new operator needs`:             func(n *names) { n.kind = "TestMain" },
		`--kind "Deployment": the new operator needs`:           func(n *names) { n.kind = "Deployment" },
		`--kind "List": kubectl takes`:                          func(n *names) { n.kind = "List" },
		`--kind "No": YAML reads it as a boolean`:               func(n *names) { n.kind = "No" },
		`s" has more than 63 characters`:                        func(n *names) { n.kind = "X" + strings.Repeat("x", 62) + "y" },
		"--group is missing":                                    func(n *names) { n.group = "" },
		`--group "example": it must be a DNS name with a dot`:   func(n *names) { n.group = "example" },
		`--group "Example.com": it must be a DNS name`:          func(n *names) { n.group = "Example.com" },
		`--group "example..com": it must be a DNS name`:         func(n *names) { n.group = "example..com" },
		`--group "example.com/x": it must be a DNS name`:        func(n *names) { n.group = "example.com/x" },
		`it is too long`:                                        func(n *names) { n.group = strings.Repeat("a.", 125) + "com" },
		`--group "k8s.io": it is reserved`:                      func(n *names) { n.group = "k8s.io" },
		`--group "apps.kubernetes.io": it is reserved`:          func(n *names) { n.group = "apps.kubernetes.io" },
		`--version "1": it must be a version of an API`:         func(n *names) { n.version = "1" },
		`--version "v0": it must be a version of an API`:        func(n *names) { n.version = "v0" },
		`--version "v1gamma1": it must be a version of an API`:  func(n *names) { n.version = "v1gamma1" },
		`--module "": it is not the path of a Go module`:        func(n *names) { n.module = "" },
		`--module "a b": it is not the path`:                    func(n *names) { n.module = "a b" },
		`--module "../a": it is not the path`:                   func(n *names) { n.module = "../a" },
		`--module "/a": it is not the path`:                     func(n *names) { n.module = "/a" },
		`--module "fmt": the standard library has packages`:     func(n *names) { n.module = "fmt" },
		`--module "net/x.y": the standard library has packages`: func(n *names) { n.module = "net/x.y" },
		"--pintle is missing":                                   func(n *names) { n.pintle = "" },
		`--pintle "latest": it is not the version`:              func(n *names) { n.pintle = "latest" },
		`--pintle "v1\nx": it is not the version`:               func(n *names) { n.pintle = "v1\nx" },
	} {
		n := website
		change(&n)
		if err := n.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := website.check(); err != nil {
		t.Error(err)
	}
	// The default module has the faults of its parts, which are errors already.
	n := website
	n.group = "..."
	n.module = n.defaultModule()
	if err := n.check(); err == nil || strings.Contains(err.Error(), "--module") {
		t.Errorf("a wrong group: %v", err)
	}
}

// TestAnyNames draws names. Those that pass make an operator whose sources are in order,
// and names that the API server accepts.
func TestAnyNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := names{
			name:    rapid.StringMatching(`[a-z][a-z0-9-]{0,70}`).Draw(t, "name"),
			kind:    rapid.StringMatching(`[A-Z][a-zA-Z0-9]{0,64}`).Draw(t, "kind"),
			group:   rapid.StringMatching(`([a-z0-9]{1,9}\.){0,4}[a-z0-9-]{1,70}`).Draw(t, "group"),
			version: rapid.StringMatching(`v[0-9]{1,3}((alpha|beta)[0-9])?`).Draw(t, "version"),
			module:  rapid.StringMatching(`[a-z]{1,9}\.[a-z]{1,9}/[a-z.~_-]{1,9}`).Draw(t, "module"),
			pintle:  "v0.1.0",
		}
		if n.check() != nil {
			return
		}
		for what, faults := range map[string][]string{
			"name":     validation.IsDNS1035Label(n.name),
			"plural":   validation.IsDNS1035Label(n.plural()),
			"singular": validation.IsDNS1035Label(strings.ToLower(n.kind)),
			"group":    validation.IsDNS1123Subdomain(n.group),
			"version":  validation.IsDNS1035Label(n.version),
			"resource": validation.IsDNS1123Subdomain(n.plural() + "." + n.group),
		} {
			if len(faults) > 0 {
				t.Errorf("%s of %+v: %s", what, n, faults)
			}
		}
		files, err := n.files()
		if err != nil {
			t.Fatalf("%+v: %v", n, err)
		}
		var sample struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(files["sample.yaml"], &sample); err != nil {
			t.Fatal(err)
		}
		if sample.APIVersion != n.group+"/"+n.version || sample.Kind != n.kind {
			t.Errorf("the sample of %+v is %+v", n, sample)
		}
	})
}

// call runs the program in the working directory.
func call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := command{out: &out, messages: &out}.run(t.Context(), args)
	return out.String(), err
}

// TestNew makes operators as people call the program.
func TestNew(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("one/.git", 0o755); err != nil { // as in the clone of an empty repository
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"new", "one", "--kind", "One", "--group", "example.com", "--pintle", "v0.1.0", "--tidy=false"},
		{"new", "--kind=Two", "two", "-group=example.com", "--module", "example.com/two", "--pintle=v0.1.0", "--tidy=false"},
		{"new", "--dir", "a/folder", "--kind", "Three", "--tidy=false", "--group", "example.com", "--pintle", "v0.1.0", "three"},
	} {
		out, err := call(t, args...)
		if err != nil || !strings.Contains(out, "make dev") || !strings.Contains(out, "go mod tidy\n") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		if args[1] == "one" && !strings.Contains(out, "which kubectl calls ones.example.com") {
			t.Errorf("it does not name the plural: %s", out)
		}
	}
	for file, want := range map[string]string{
		"one/go.mod":        "module example.com/one\n\ngo " + goVersion + "\n\nrequire github.com/pintle-go/pintle v0.1.0\n",
		"two/go.mod":        "module example.com/two\n",
		"a/folder/types.go": "type Three struct",
		"one/.gitignore":    "/.cluster/\n",
	} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %q", file, err, text)
		}
	}
}

// TestWorkspace makes an operator below a workspace, which has to name the new module.
func TestWorkspace(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GOWORK", "")
	args := []string{"--kind", "One", "--group", "example.com", "--pintle", "v0.1.0", "--tidy=false"}
	const use = "go work use ."
	if out, err := call(t, append([]string{"new", "outside"}, args...)...); err != nil || strings.Contains(out, use) {
		t.Errorf("without a workspace: %v\n%s", err, out)
	}
	if err := os.WriteFile("go.work", []byte("go "+goVersion+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := call(t, append([]string{"new", "inside"}, args...)...); err != nil || !strings.Contains(out, use) {
		t.Errorf("in a workspace: %v\n%s", err, out)
	}
}

// TestNewFails calls the program in ways that do not work.
func TestNewFails(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("full/of", 0o755); err != nil {
		t.Fatal(err)
	}
	good := []string{"--kind", "Foo", "--group", "example.com", "--pintle", "v0.1.0"}
	for want, test := range map[string]struct {
		args  []string
		usage bool
	}{
		"give the new operator a name":        {[]string{"new"}, true},
		`one name, and not ["foo" "bar"]`:     {append([]string{"new", "foo", "bar"}, good...), true},
		"flag provided but not defined: -no":  {[]string{"new", "foo", "--no"}, true},
		`there is no command "create"`:        {[]string{"create", "foo"}, true},
		"--kind is missing":                   {[]string{"new", "foo", "--group", "example.com"}, true},
		"full is not empty: it has of":        {append([]string{"new", "full"}, good...), false},
		"read the folder of the new operator": {append([]string{"new", "file"}, good...), false},
	} {
		_, err := call(t, test.args...)
		wrong := (*usageError)(nil)
		if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, &wrong) != test.usage {
			t.Errorf("%q: got %v, want %s", test.args, err, want)
		}
	}
	if _, err := call(t, "new", "--help"); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOMODCACHE", t.TempDir())
	if err := os.MkdirAll("cloned/.git", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"foo", "a/b", "cloned"} {
		args := append([]string{"new", "foo", "--dir", folder}, good...)
		_, err := call(t, args...)
		if err == nil || !strings.Contains(err.Error(), "--tidy=false writes it without them") {
			t.Errorf("without a network: %v", err)
		}
		left, err := os.ReadDir(folder)
		if folder == "cloned" && len(left) == 1 && left[0].Name() == ".git" {
			err = fs.ErrNotExist
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v, %v", folder, left, err)
		}
		if _, err := call(t, append(args, "--tidy=false")...); err != nil {
			t.Errorf("the corrected call: %v", err)
		}
	}
}

func TestVersionAndUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"pintle (built from a checkout)\n": {"version"},
		usage:                              {},
	} {
		if out, err := call(t, args...); err != nil || out != want {
			t.Errorf("%q: %q, %v", args, out, err)
		}
	}
	var out bytes.Buffer
	err := command{out: &out, release: "v1.2.3"}.run(t.Context(), []string{"version"})
	if err != nil || out.String() != "pintle v1.2.3\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestRelease tells the releases of the module from commits of a checkout.
func TestRelease(t *testing.T) {
	git := []debug.BuildSetting{{Key: "vcs", Value: "git"}}
	for want, info := range map[string]debug.BuildInfo{
		"v1.2.3":                               {Main: debug.Module{Version: "v1.2.3"}},
		"v1.2.4-0.20260102030405-abcdefabcdef": {Main: debug.Module{Version: "v1.2.4-0.20260102030405-abcdefabcdef"}},
	} {
		if got := releaseOf(&info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if info.Settings = git; releaseOf(&info) != "" {
			t.Errorf("%s of a checkout is a release", want)
		}
	}
	if got := releaseOf(&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}); got != "" {
		t.Errorf("got %q of go run", got)
	}
}

// No new operator has the path of a package of the standard library, whatever the version of Go.
func TestStandardPaths(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "std", "cmd").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if first, _, _ := strings.Cut(path, "/"); !isStandard(first) {
			t.Errorf("%s is not known as a package of the standard library", path)
		}
	}
	n := website
	if n.module = "website"; n.check() != nil {
		t.Error("a module without a dot in its path:", n.check())
	}
}
