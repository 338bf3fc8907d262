package bubble

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every history is checked although each takes more than a day. Expensive ones are fewer.
func TestHistoriesLongerThanADay(t *testing.T) {
	wanted, err := wantedChecks()
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for _, cost := range []int{1, 10} {
		histories := 0
		Check(t, cost, func(*rapid.T, *testing.T) {
			time.Sleep(30 * time.Hour)
			histories++
		})
		if histories != wanted/cost {
			t.Errorf("cost %d: %d histories were checked, want %d", cost, histories, wanted/cost)
		}
	}
	if time.Since(begun) > time.Hour {
		t.Error("the time was not virtual")
	}
}

// A history that fails is found, and fails the test.
func TestFailure(t *testing.T) {
	const helper = "PINTLE_BUBBLE_FAILS"
	if os.Getenv(helper) == "1" {
		Check(t, 1, func(rt *rapid.T, _ *testing.T) {
			days := rapid.IntRange(0, 1000).Draw(rt, "days")
			time.Sleep(time.Duration(days) * 24 * time.Hour)
			if days > 9 {
				rt.Fatalf("%d days are too many", days)
			}
		})
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFailure$", "-rapid.nofailfile")
	cmd.Env = append(os.Environ(), helper+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "days are too many") {
		t.Errorf("%v\n%s", err, out)
	}
}
