package clap

import (
	"errors"
	"strings"
	"testing"
)

// TestParse has command lines and the reasons for which upstream's programs refuse them.
func TestParse(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"-D dir --id 3 --dev":       "",
		"--datadir=dir --id=3":      "",
		"-D=dir":                    "",
		"--D dir":                   "unexpected argument '--D'",
		"-datadir dir":              "unexpected argument '-datadir'",
		"--bogus":                   "unexpected argument '--bogus'",
		"extra":                     "unexpected argument 'extra'",
		"--id 3 --id 3":             "'--id' cannot be used multiple times",
		"-D dir --datadir dir":      "'--datadir' cannot be used multiple times",
		"--dev=true":                "unexpected value 'true'",
		"--id":                      "a value is required for '--id'",
		"--id --dev":                "a value is required for '--id'",
		"--id x":                    "invalid value 'x' for '--id'",
		"--other --dev --ignored=7": "",
	} {
		f := New("program")
		var dir string
		for _, name := range []string{"D", "datadir"} {
			f.StringVar(&dir, name, "", "")
		}
		id := f.Int("id", 0, "")
		dev := f.Bool("dev", false, "")
		f.Ignored("ignored")
		f.Switches("other")
		err := f.Parse(strings.Fields(line))
		var usage *UsageError
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (!errors.As(err, &usage) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", line, err, want)
		case strings.HasPrefix(line, "-D dir --id") && (dir != "dir" || *id != 3 || !*dev):
			t.Errorf("%s is read as %q, %d, %t", line, dir, *id, *dev)
		}
		f.Repeats = true
		if err := f.Parse([]string{"-D", "a", "-D", "b"}); err != nil || dir != "b" {
			t.Errorf("a flag that may be repeated: %q, %v", dir, err)
		}
	}
}
