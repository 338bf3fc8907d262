package project

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"7 days": 7 * 24 * time.Hour, "7days": 7 * 24 * time.Hour, "1week": 7 * 24 * time.Hour,
		"1h 30m": 90 * time.Minute, "1h30min": 90 * time.Minute, " 10 s ": 10 * time.Second,
		"1M": 2_630_016 * time.Second, "5ms": 5 * time.Millisecond,
	} {
		if got, ok := parseDuration(text); !ok || got != want {
			t.Errorf("parseDuration(%q) = %s, %t, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "7", "days", "7 sols", "-1 day", "9223372036854775807 years", "1 day and more"} {
		if got, ok := parseDuration(text); ok {
			t.Errorf("parseDuration(%q) = %s", text, got)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	f.Add("7 days")
	f.Add("1h30m")
	f.Fuzz(func(t *testing.T, text string) {
		if d, ok := parseDuration(text); ok && d < 0 {
			t.Errorf("parseDuration(%q) = %s", text, d)
		}
	})
}

// TestSame has values that the storage controller gave back in another form.
func TestSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		is, want any
		same     bool
	}{
		{"7days", "7 days", true},
		{"7days", "8 days", false},
		{float64(1048576), float64(1048576), true},
		{nil, "7 days", false},
		{"zstd", "zstd", true},
		{"zstd", "lz4", false},
	} {
		if got := same(c.is, c.want); got != c.same {
			t.Errorf("same(%v, %v) = %t", c.is, c.want, got)
		}
	}
}
