package project

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// parseDuration parses a duration as the Rust crate humantime does: "7 days", "1h 30m".
// Months and years have the lengths that humantime gives them.
func parseDuration(text string) (time.Duration, bool) {
	var sum time.Duration
	rest := strings.TrimSpace(text)
	if rest == "" {
		return 0, false
	}
	for rest != "" {
		digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if digits <= 0 {
			return 0, false
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, false
		}
		rest = strings.TrimLeft(rest[digits:], " ")
		letters := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) })
		if letters < 0 {
			letters = len(rest)
		}
		unit, ok := unitOf(rest[:letters])
		if !ok || n > int64(1<<63-1)/int64(unit) || sum > 1<<63-1-time.Duration(n)*unit {
			return 0, false
		}
		sum += time.Duration(n) * unit
		rest = strings.TrimLeft(rest[letters:], " ")
	}
	return sum, true
}

func unitOf(name string) (time.Duration, bool) {
	const day = 24 * time.Hour
	switch name {
	case "nanos", "nsec", "ns":
		return time.Nanosecond, true
	case "usec", "us":
		return time.Microsecond, true
	case "millis", "msec", "ms":
		return time.Millisecond, true
	case "seconds", "second", "secs", "sec", "s":
		return time.Second, true
	case "minutes", "minute", "min", "mins", "m":
		return time.Minute, true
	case "hours", "hour", "hrs", "hr", "h":
		return time.Hour, true
	case "days", "day", "d":
		return day, true
	case "weeks", "week", "wks", "wk", "w":
		return 7 * day, true
	case "months", "month", "M":
		return 2_630_016 * time.Second, true
	case "years", "year", "yrs", "yr", "y":
		return 31_557_600 * time.Second, true
	}
	return 0, false
}
