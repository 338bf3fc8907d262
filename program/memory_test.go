package program

import (
	"math"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// A program that runs collects garbage earlier than Go's default, unless somebody has decided about
// its memory. A program that prints manifests does not.
func TestMemory(t *testing.T) {
	for name, test := range map[string]struct {
		gogc, limit string // of the environment
		percent     int    // that the program has set, or Go's default
		most        int64
		args        []string
		want        int
	}{
		"nothing is set":         {"", "", 100, math.MaxInt64, nil, gcPercent},
		"GOGC is set":            {"100", "", 100, math.MaxInt64, nil, 100},
		"GOGC is off":            {"off", "", -1, math.MaxInt64, nil, -1},
		"GOMEMLIMIT is set":      {"", "1GiB", 100, 1 << 30, nil, 100},
		"the program sets GOGC":  {"", "", 200, math.MaxInt64, nil, 200},
		"the program sets limit": {"", "", 100, 1 << 30, nil, 100},
		"it only prints":         {"", "", 100, math.MaxInt64, []string{"manifests"}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", test.gogc)
			t.Setenv("GOMEMLIMIT", test.limit)
			defer debug.SetGCPercent(debug.SetGCPercent(test.percent))
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(test.most))
			none := "-kubeconfig=" + filepath.Join(t.TempDir(), "none")
			if _, err := call(t, append([]string{none}, test.args...)...); (err == nil) != (test.args != nil) {
				t.Fatal(err)
			}
			is := debug.SetGCPercent(test.percent)
			if is != test.want {
				t.Errorf("garbage is collected at %d%%, want %d%%", is, test.want)
			}
		})
	}
}
