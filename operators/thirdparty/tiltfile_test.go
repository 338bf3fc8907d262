package thirdparty

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

const root = "../.."

// tilted holds the settings of a Tiltfile.
type tilted struct {
	yaml      []string
	resources map[string]resource
}

type resource struct {
	cmd, serve   string
	deps, ignore []string
}

// evalTiltfile runs the repository's Tiltfile, in Starlark as Tilt does, with the
// functions of https://docs.tilt.dev/api.html that it calls.
func evalTiltfile(t *testing.T) tilted {
	t.Helper()
	found := tilted{resources: make(map[string]resource)}
	strs := func(l *starlark.List) (s []string) {
		for v := range l.Elements() {
			s = append(s, string(v.(starlark.String)))
		}
		return s
	}
	yaml := func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kw []starlark.Tuple) (starlark.Value, error) {
		var files *starlark.List
		err := starlark.UnpackArgs(b.Name(), args, kw, "yaml", &files)
		if err == nil {
			found.yaml = append(found.yaml, strs(files)...)
		}
		return starlark.None, err
	}
	local := func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kw []starlark.Tuple) (starlark.Value, error) {
		var name string
		var r resource
		deps, ignore := new(starlark.List), new(starlark.List)
		err := starlark.UnpackArgs(
			b.Name(), args, kw, "name", &name, "cmd", &r.cmd, "serve_cmd?", &r.serve, "deps?", &deps, "ignore?", &ignore,
		)
		if err == nil {
			r.deps, r.ignore = strs(deps), strs(ignore)
			found.resources[name] = r
		}
		return starlark.None, err
	}
	thread := &starlark.Thread{Name: "Tiltfile"}
	_, err := starlark.ExecFileOptions(
		&syntax.FileOptions{}, thread, filepath.Join(root, "Tiltfile"), nil,
		starlark.StringDict{
			"k8s_yaml":       starlark.NewBuiltin("k8s_yaml", yaml),
			"local_resource": starlark.NewBuiltin("local_resource", local),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestTiltfile compares the Tiltfile with the sources. Its commands build programs that
// take the flags. A change in any directory that a program is compiled from rebuilds the
// program.
func TestTiltfile(t *testing.T) {
	found := evalTiltfile(t)
	if len(found.resources) == 0 || len(found.yaml) == 0 {
		t.Fatalf("it asks for %d resources and %d files", len(found.resources), len(found.yaml))
	}
	for _, file := range found.yaml {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Error(err)
		}
	}
	for name, r := range found.resources {
		t.Run(name, func(t *testing.T) {
			for _, path := range r.deps {
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Error(err)
				}
			}
			for _, path := range r.ignore {
				if strings.Contains(path, "**") {
					continue
				}
				// An ignored path need not exist for every operator.
				if !slices.ContainsFunc(r.deps, func(dep string) bool { return strings.HasPrefix(path, dep+"/") }) {
					t.Errorf("%s is in none of %q", path, r.deps)
				}
			}
			for _, dir := range compiledFrom(t, "./operators/"+name) {
				watched := slices.ContainsFunc(
					r.deps, func(dep string) bool { return dir == dep || strings.HasPrefix(dir, dep+"/") },
				)
				if !watched {
					t.Errorf("it is not rebuilt for %s", dir)
				}
			}

			program, flags, _ := strings.Cut(r.serve, " ")
			built := filepath.Join(t.TempDir(), name)
			shell(t, strings.ReplaceAll(r.cmd, program, built))
			// Without a cluster the program ends for that reason, not because of its
			// flags.
			run := exec.CommandContext(t.Context(), built, strings.Fields(flags)...)
			run.Env = append(os.Environ(), "KUBECONFIG=/nonexistent", "HOME=/nonexistent", "KUBERNETES_SERVICE_HOST=")
			out, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "/nonexistent") || strings.Contains(string(out), "flag provided") {
				t.Errorf("%s %s: %v\n%s", name, flags, err, out)
			}
		})
	}
}

// compiledFrom returns the directories of the repository with the sources of a
// program.
func compiledFrom(t *testing.T, program string) (dirs []string) {
	t.Helper()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range strings.Fields(shell(t, "go list -deps -f '{{if not .Standard}}{{.Dir}}{{end}}' "+program)) {
		if rel, err := filepath.Rel(abs, dir); err == nil && filepath.IsLocal(rel) {
			dirs = append(dirs, rel)
		}
	}
	if len(dirs) < 2 {
		t.Fatalf("%s is compiled from %q", program, dirs)
	}
	return dirs
}

// shell runs a command as Tilt does, in the Tiltfile's directory.
func shell(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = root
	cmd.Env = slices.DeleteFunc(
		os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOWORK=") || strings.HasPrefix(v, "GOFLAGS=") },
	)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(out)
}
