package metrics

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

const (
	statText = "4711 (a) b (c) S 1 4711 4711 0 -1 4194560 2613 0 1 0 250 125 0 0 20 0 9 0 123456 1267515392 5170 18446744073709551615 1 1 0 0 0 0 0 0 2143420159 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"

	netstatText = "TcpExt: SyncookiesSent InOctets\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 3 4 5\n"
)

func TestProc(t *testing.T) {
	if got, ok := parseStat([]byte(statText)); !ok || got != (procStat{start: 1234.56, virtual: 1267515392, pages: 5170}) {
		t.Errorf("stat: got %+v, %v", got, ok)
	}
	for _, text := range []string{"", "1 a S", "1 (a)", strings.Replace(statText, "123456", "x", 1), strings.Replace(statText, " 5170", " -1", 1), statText[:60]} {
		if got, ok := parseStat([]byte(text)); ok {
			t.Errorf("stat of %q: got %+v", text, got)
		}
	}
	if got, ok := parseBootTime([]byte("cpu 1 2\nbtime 1790000000\nprocesses 5\n")); !ok || got != 1790000000 {
		t.Errorf("boot time: got %v, %v", got, ok)
	}
	for _, text := range []string{"", "cpu 1\n", "btime x\n"} {
		if got, ok := parseBootTime([]byte(text)); ok {
			t.Errorf("boot time of %q: got %v", text, got)
		}
	}
	if got, ok := parseNetstat([]byte(netstatText), "IpExt", "InOctets"); !ok || got != 4 {
		t.Errorf("netstat: got %v, %v", got, ok)
	}
	for _, text := range []string{"", "IpExt: InOctets\n", "IpExt: InOctets\nIpExt:\n", "IpExt: InOctets\nIpExt: x\n", "IpExt: Out\nIpExt: 1\n"} {
		if got, ok := parseNetstat([]byte(text), "IpExt", "InOctets"); ok {
			t.Errorf("netstat of %q: got %v", text, got)
		}
	}
}

func FuzzProc(f *testing.F) {
	f.Add([]byte(statText))
	f.Add([]byte("btime 1790000000\n"))
	f.Add([]byte(netstatText))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, ok := parseStat(text); ok && !(s.start >= 0 && s.virtual >= 0 && s.pages >= 0) {
			t.Errorf("stat: %+v", s)
		}
		if seconds, ok := parseBootTime(text); ok && !(seconds >= 0 && !math.IsInf(seconds, 0)) {
			t.Errorf("boot time: %v", seconds)
		}
		parseNetstat(text, "IpExt", "InOctets")
	})
}

// FuzzForeign appends any text to a text that has the family a.
func FuzzForeign(f *testing.F) {
	f.Add([]byte("# HELP a A.\n# TYPE a gauge\na 1\n# TYPE b histogram\nb_sum 1\n\na_count{x=\"\"} 3"))
	f.Add([]byte("a{b=\"}\\\"\",c=\"d\"} 1\na{c=\"d\",b=\"}\\\"\"} 2\n# TYPE a gauge\na{} 3"))
	f.Fuzz(func(t *testing.T, text []byte) {
		const own = "# TYPE a gauge\na 1\n"
		a := &family{name: "a", kind: gauge, metrics: New()}
		var more foreign
		more.read(text)
		got := more.appendRest(more.appendTo([]byte(own), 0, a))
		if !bytes.HasPrefix(got, []byte(own)) || got[len(got)-1] != '\n' {
			t.Errorf("got %q", got)
		}
		if n := bytes.Count(got, []byte("\n# TYPE a ")); n > 0 {
			t.Errorf("a is shown again: %q", got)
		}
		lines := make(map[string]bool)
		for line := range bytes.Lines(text) {
			lines[strings.TrimRight(string(line), "\r\n")] = true
		}
		for line := range bytes.Lines(got[len(own):]) {
			if !lines[strings.TrimRight(string(line), "\r\n")] {
				t.Errorf("line %q comes from nowhere", line)
			}
		}
		var again foreign
		again.read(got)
		if is := again.appendRest(nil); !bytes.Equal(is, got) {
			t.Errorf("%q becomes %q where nothing was shown", got, is)
		}
	})
}
