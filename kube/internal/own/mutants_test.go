package own_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutants are faults of the package, each made by a change of its source. TestModel must fail with
// each, or it proves little. It passes only with the first, which is none.
var mutants = []struct{ name, file, from, to string }{
	{"none", "own.go", "package own\n", "package own\n"},
	{"a list of before a deletion buries", "key.go",
		"return d.seq <= began && versions.Numeric(version)", "return versions.Numeric(version)"},
	{"a list of before what the watch has shown counts", "list.go",
		"if versions.Older(l.Version, h.lane.Heard) {", "if false {"},
	{"a list of metadata makes an own write foreign", "list.go",
		"if is.is(c.UID) && !l.Whole && h.now != is {", "if false {"},
	{"a late answer about a listed object is foreign", "key.go",
		"if a.Own {\n\t\t\tother", "if false {\n\t\t\tother"},
	{"a list shows the dead", "list.go", "if is.Exists && h.mark.deadOf(is.UID) != nil {", "if false {"},
	{"the deleted are forgotten", "own.go", "h.mark.dead = append(h.mark.dead, d)", "_ = d"},
	{"the deleted are remembered for ever", "own.go", "return at.Sub(d.at) >= Kept", "return false"},
	{"the deleted end by the DELETED of a selection", "key.go", "if deleted && !selects {", "if deleted {"},
	{"a late answer of a deleted object is no end", "key.go", "if !d.told {", "if false {"},
	{"a deletion that may be of another object is trusted", "key.go",
		"if !d.known && d.seq > h.mark.doubt.seq {", "if false {"},
	{"the watch brings back the past", "key.go", "	if versions.Reached(h.mark.past, is.Version) {", "	if false {"},
	{"any event ends a claim", "key.go",
		"case !deleted && versions.Reached(is.Version, c.Version) &&", "case !deleted &&"},
	{"any event ends a claimed deletion", "key.go", "case !deleted && same && c.Deleting && !is.Deleting:", "case false:"},
	{"an end before its claim was shown is not told", "key.go", "		h.ended(c.UID, c.last)", ""},
	{"a claim that was shown makes no object own", "key.go",
		"	case h.now.is(c.UID):\n		h.out.OwnWas = true", "	case false:"},
	{"an own answer makes no object own", "key.go", "h.out.OwnIs = h.out.OwnIs || a.Own", ""},
	{"an answer that the watch was ahead of makes no object own", "key.go",
		"	if a.Own && h.now.is(a.UID) {\n		h.out.OwnWas = true", "	if false {\n		h.out.OwnWas = true"},
	{"an answer of before a successor is taken", "key.go",
		"case h.now.Exists && versions.Older(a.Version, h.now.Version),", "case false,"},
	{"an answer of before an end that was shown is taken", "key.go",
		"!h.now.Exists && versions.Reached(h.lane.Heard, a.Version):", "false:"},
	{"an own answer ends the doubt about another write", "own.go", "began = 0 // another", "began = s.seq // another"},
	{"a lost write leaves no doubt", "own.go", "h.mark.doubt = doubt{seq, at} })", "_ = seq })"},
	{"an answer of before a deletion buries", "key.go", "!versions.Older(version, d.floor)", "true"},
	{"a claim leaves its predecessor", "key.go", "h.drop() // the content's object has ended before", ""},
	{"the past takes no claim with it", "key.go",
		"if c := h.mark.claim; c != nil && versions.Reached(version, c.Version) {", "if false {"},
	{"an object that leaves the selection by an own write stays", "key.go", "	case a.Out:\n		h.drop()", "	case a.Out:"},
	{"the past is remembered for ever", "key.go",
		"	if versions.Reached(version, h.mark.past) {\n		h.mark.past = \"\"", "	if false {\n		h.mark.past = \"\""},
	{"the past waits for no version", "waits.go", "if version, ok = versions.Number(m.past); ok {", "if false {"},
}

// TestMutants runs TestModel with each mutant.
func TestMutants(t *testing.T) {
	if os.Getenv("MUTANT") != "" {
		t.Skip("this is a mutant")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), m.from); n != 1 {
				t.Fatalf("%s has %q %d times, want once", m.file, m.from, n)
			}
			dir := t.TempDir()
			mutant, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
			here, err := filepath.Abs(m.file)
			if err != nil {
				t.Fatal(err)
			}
			replace, err := json.Marshal(map[string]any{"Replace": map[string]string{here: mutant}})
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(source), m.from, m.to, 1)
			for name, data := range map[string][]byte{mutant: []byte(changed), overlay: replace} {
				if err := os.WriteFile(name, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-failfast", "-ldflags=-s -w",
				"-overlay="+overlay, "-run=^TestModel$", ".")
			cmd.Env = append(os.Environ(), "MUTANT="+m.name)
			out, err := cmd.CombinedOutput()
			if m.name == "none" {
				if err != nil {
					t.Errorf("TestModel fails: %v\n%s", err, out)
				}
				return
			}
			switch {
			case err == nil:
				t.Error("TestModel passes")
			case !strings.Contains(string(out), "--- FAIL: TestModel"):
				t.Errorf("TestModel does not run: %v\n%s", err, out)
			}
		})
	}
}
