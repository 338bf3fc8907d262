package wal

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
)

func TestBaseEndsAtStart(t *testing.T) {
	t.Parallel()
	base, err := NewBase(t.Context(), pgtest.Bin(t), pgtest.Account(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := Unpack(bytes.NewReader(base), dir); err != nil {
		t.Fatal(err)
	}
	d := Directory{Path: filepath.Join(dir, "pg_wal")}
	if d.System() == 0 {
		t.Error("no system identifier")
	}
	if end, err := NewScanner(d, Start-SegmentSize).Last(Start); err != nil || end != Start {
		t.Errorf("the WAL ends at %s, %v", end, err)
	}
	t.Logf("%d bytes", len(base))
}
