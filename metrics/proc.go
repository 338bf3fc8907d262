package metrics

import (
	"bytes"
	"strconv"
)

// The data that Linux has under /proc, as proc(5) describes it.

// procStat holds the used fields of /proc/self/stat.
type procStat struct {
	start   float64 // seconds after the start of the machine
	virtual float64 // bytes
	pages   float64 // resident pages
}

// parseStat reads /proc/self/stat.
func parseStat(text []byte) (s procStat, ok bool) {
	// The second field is the program's name in parentheses. The name may contain
	// parentheses.
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return procStat{}, false
	}
	fields := bytes.Fields(text[end+1:])
	const third = 3 // proc(5) gives this number to the first of the fields
	for _, f := range []struct {
		number int
		unit   float64 // divisor from the field's unit to ours
		to     *float64
	}{
		{22, 100, &s.start}, // USER_HZ, on every system that Go runs on
		{23, 1, &s.virtual},
		{24, 1, &s.pages},
	} {
		if len(fields) <= f.number-third {
			return procStat{}, false
		}
		n, err := strconv.ParseUint(string(fields[f.number-third]), 10, 64)
		if err != nil {
			return procStat{}, false
		}
		*f.to = float64(n) / f.unit
	}
	return s, true
}

// parseBootTime reads the start time of the machine from /proc/stat, in seconds since
// 1970.
func parseBootTime(text []byte) (seconds float64, ok bool) {
	for line := range bytes.Lines(text) {
		if value, found := bytes.CutPrefix(line, []byte("btime ")); found {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
			return float64(n), err == nil
		}
	}
	return 0, false
}

// parseNetstat reads a value of /proc/self/net/netstat. There a line of names is followed
// by a line of values, and both begin with the name of a group.
func parseNetstat(text []byte, group, name string) (value float64, ok bool) {
	var names [][]byte
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || string(fields[0]) != group+":" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, n := range names {
			if string(n) == name && i < len(fields) {
				v, err := strconv.ParseFloat(string(fields[i]), 64)
				return v, err == nil
			}
		}
		return 0, false
	}
	return 0, false
}
