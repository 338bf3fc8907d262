// Package wal keeps the write-ahead log of PostgreSQL where Neon keeps it: on a quorum of
// safekeepers, and readable through pageservers. It belongs to the stand-ins for Neon's
// programs, which tests run in their place; its protocol is its own.
//
// A [Log] is the WAL of one timeline on one safekeeper, and [Server] serves logs. A
// [Proposer] is the other side, inside of a compute: it is elected by a majority of
// safekeepers, which refuse an older one from then on, and pushes its WAL to them. [Pages]
// is the part of a pageserver from which a compute gets its first data.
//
// The promise is that of Neon: WAL that a majority has flushed is in the log of every later
// proposer.
package wal

import (
	"fmt"
	"strconv"
	"strings"
)

// LSN is a place in the log, in bytes.
type LSN uint64

const (
	// PageSize and SegmentSize are those with which PostgreSQL is built everywhere.
	PageSize    = 8192
	SegmentSize = 16 << 20

	// Start is where the WAL of a timeline without an ancestor begins: [NewBase] makes it so.
	Start LSN = 4 * SegmentSize
)

// ParseLSN reads the form 0/16B3748.
func ParseLSN(text string) (LSN, error) {
	high, low, _ := strings.Cut(text, "/")
	h, err := strconv.ParseUint(high, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("parse LSN %q: %w", text, err)
	}
	l, err := strconv.ParseUint(low, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("parse LSN %q: %w", text, err)
	}
	return LSN(h<<32 | l), nil
}

func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint64(l)>>32, uint32(l)) }

// Segment returns the beginning of the segment that holds the LSN.
func (l LSN) Segment() LSN { return l / SegmentSize * SegmentSize }

// File returns the name of the file of PostgreSQL that holds the LSN, on PostgreSQL's first
// timeline: computes never begin another.
func (l LSN) File() string {
	const perHigh = (1 << 32) / SegmentSize
	segment := uint64(l) / SegmentSize
	return fmt.Sprintf("%08X%08X%08X", 1, segment/perHigh, segment%perHigh)
}
