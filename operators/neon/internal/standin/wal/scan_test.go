package wal

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// The end that a scan finds is that of the last whole record, wherever the WAL is cut off.
func TestScanFindsWholeRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		m := &made{start: Start}
		ends := []LSN{Start}
		for range rapid.IntRange(1, 30).Draw(t, "records") {
			size := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, 3*PageSize)).Draw(t, "size")
			ends = append(ends, m.add(random, size))
		}
		limit := Start + LSN(rapid.IntRange(0, len(m.bytes)).Draw(t, "limit"))
		from := rapid.IntRange(0, len(ends)-1).Draw(t, "from")
		want := ends[from]
		for _, end := range ends[from:] {
			if end <= limit || (end-limit < alignment && wholeAt(m, end, limit)) {
				want = end
			}
		}
		scanner := NewScanner(m, ends[from])
		if got, err := scanner.Last(limit); err != nil || got != want {
			t.Fatalf("Last(%s) = %s, %v, want %s of %v", limit, got, err, want, ends)
		}
	})
}

// wholeAt tells whether only padding is between a limit and the end of a record.
func wholeAt(m *made, end, limit LSN) bool {
	got, err := NewScanner(m, Start).Last(limit)
	return err == nil && got == end
}

func TestDamageEndsTheLog(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	m := &made{start: Start}
	first := m.add(random, 104)
	second := m.add(random, 104)
	for at := first; at < second; at++ {
		m.bytes[at-Start] ^= 0x5a
		if got, err := NewScanner(m, Start).Last(m.end()); err != nil || got != first {
			t.Errorf("with damage at %s the log ends at %s, %v, want %s", at, got, err, first)
		}
		m.bytes[at-Start] ^= 0x5a
	}
	if got, err := NewScanner(m, Start).Last(m.end()); err != nil || got != second {
		t.Errorf("the log ends at %s, %v, want %s", got, err, second)
	}
}

func TestScanBeginsInsideOfARecord(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	m := &made{start: Start}
	first := Start
	for first < Start+SegmentSize {
		first = m.add(random, 3*PageSize) // the last one reaches into the next segment
	}
	last := m.add(random, 10)
	scanner := NewScanner(m, Start+SegmentSize)
	r, ok, err := scanner.Next(m.end())
	if err != nil || !ok || r.Start != first || r.End != last {
		t.Errorf("Next() = %v, %t, %v, want the record from %s to %s", r, ok, err, first, last)
	}
}

func TestLSN(t *testing.T) {
	t.Parallel()
	lsn, err := ParseLSN("1A/16B3748")
	if err != nil || lsn != 0x1A016B3748 || lsn.String() != "1A/16B3748" {
		t.Errorf("ParseLSN = %s, %v", lsn, err)
	}
	if name := lsn.File(); name != "000000010000001A00000001" {
		t.Errorf("File() = %s", name)
	}
	for _, text := range []string{"", "1", "1/", "/1", "1/123456789", "x/1", "1/1/1"} {
		if lsn, err := ParseLSN(text); err == nil {
			t.Errorf("ParseLSN(%q) = %s", text, lsn)
		}
	}
}
