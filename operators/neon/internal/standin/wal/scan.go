package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// Scanner finds the records of a log: how far it holds whole ones. The form is that of
// PostgreSQL 14 to 17, whose xlogrecord.h and xlog_internal.h describe it.
type Scanner struct {
	log io.ReaderAt // offsets are LSNs
	at  LSN

	page    [PageSize]byte
	pageAt  LSN
	pageEnd LSN // the bytes of page that are valid
}

// NewScanner returns a scanner that begins at the end of a record, or at the beginning of a
// segment that no record reaches into. The offsets of log are LSNs.
func NewScanner(log io.ReaderAt, at LSN) *Scanner { return &Scanner{log: log, at: at} }

// End returns the end of the last record that was found.
func (s *Scanner) End() LSN { return s.at }

// Record is one record.
type Record struct {
	Start, End LSN
	Manager    byte
	Info       byte
}

const (
	recordHeader = 24
	pageHeader   = 24
	longHeader   = 40 // of the first page of a segment
	alignment    = 8

	// Flags of a page's header.
	firstIsContinued   = 0x0001
	firstIsOverwritten = 0x0008

	// The record after which the rest of a segment is empty.
	switchManager = 0
	switchInfo    = 0x40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Next returns the next record that ends before or at a limit. It returns false if there is
// none: the log ends, or holds something else.
func (s *Scanner) Next(limit LSN) (Record, bool, error) {
	from, err := s.skip(s.at, limit)
	if err != nil || from == 0 {
		return Record{}, false, err
	}
	for {
		head, next, state, err := s.gather(from, nil, recordHeader, limit)
		if err != nil || state == ended {
			return Record{}, false, err
		}
		if state == overwritten { // the record was given up, and another begins at the page
			from = next
			continue
		}
		size := int(binary.LittleEndian.Uint32(head))
		if size < recordHeader || size > 1<<30 {
			return Record{}, false, nil
		}
		body, next, state, err := s.gather(next, nil, size-recordHeader, limit)
		if err != nil || state == ended {
			return Record{}, false, err
		}
		if state == overwritten {
			from = next
			continue
		}
		sum := crc32.Update(crc32.Checksum(body, castagnoli), castagnoli, head[:20])
		if sum != binary.LittleEndian.Uint32(head[20:]) {
			return Record{}, false, nil
		}
		r := Record{Start: from, End: (next + alignment - 1) / alignment * alignment, Info: head[16], Manager: head[17]}
		if r.Manager == switchManager && r.Info&0xf0 == switchInfo {
			r.End = (next - 1).Segment() + SegmentSize
			if r.End > limit {
				return Record{}, false, nil
			}
		}
		s.at = r.End
		return r, true, nil
	}
}

// Last moves to the end of the last record before or at a limit, and returns it.
func (s *Scanner) Last(limit LSN) (LSN, error) {
	for {
		_, ok, err := s.Next(limit)
		if err != nil || !ok {
			return s.at, err
		}
	}
}

// skip moves past the rest of a record that began before the segment in which the scan
// begins. It returns 0 if the record goes on beyond the limit.
func (s *Scanner) skip(from, limit LSN) (LSN, error) {
	if from%SegmentSize != 0 {
		return from, nil
	}
	raw, err := s.read(from, longHeader, limit)
	if err != nil || raw == nil {
		return 0, err
	}
	rest := int(binary.LittleEndian.Uint32(raw[16:]))
	if binary.LittleEndian.Uint16(raw[2:])&firstIsContinued == 0 {
		return from, nil
	}
	_, next, state, err := s.gather(from, []byte{0}, rest, limit)
	if err != nil || state == ended {
		return 0, err
	}
	return (next + alignment - 1) / alignment * alignment, nil // also if the record was given up
}

type gathered int

const (
	whole gathered = iota
	ended
	overwritten
)

// gather reads count bytes of records, without the headers of pages between them. If a page
// begins with another record than the one that should go on there, the state is overwritten
// and next is that page.
func (s *Scanner) gather(from LSN, data []byte, count int, limit LSN) (_ []byte, next LSN, state gathered, _ error) {
	for first := true; ; first = false {
		if from%PageSize == 0 {
			header := LSN(pageHeader)
			if from%SegmentSize == 0 {
				header = longHeader
			}
			raw, err := s.read(from, int(header), limit)
			if err != nil || raw == nil {
				return nil, 0, ended, err
			}
			info := binary.LittleEndian.Uint16(raw[2:])
			if binary.LittleEndian.Uint64(raw[8:]) != uint64(from) {
				return nil, 0, ended, nil // a page of an older use of the file, or none
			}
			if inside := len(data) > 0 || !first; inside && (info&firstIsContinued == 0 || info&firstIsOverwritten != 0) {
				return nil, from, overwritten, nil
			}
			from += header
		}
		if count == 0 {
			return data, from, whole, nil
		}
		n := min(count, int(PageSize-from%PageSize))
		raw, err := s.read(from, n, limit)
		if err != nil || raw == nil {
			return nil, 0, ended, err
		}
		data = append(data, raw...)
		from, count = from+LSN(n), count-n
		if count == 0 {
			return data, from, whole, nil
		}
	}
}

// read returns bytes of one page, or nil if they are not all before the limit.
func (s *Scanner) read(from LSN, n int, limit LSN) ([]byte, error) {
	end := from + LSN(n)
	if end > limit {
		return nil, nil
	}
	if page := from / PageSize * PageSize; page != s.pageAt || end > s.pageEnd {
		have := min(limit, page+PageSize)
		got, err := s.log.ReadAt(s.page[:have-page], int64(page))
		if err != nil && got < int(have-page) {
			return nil, fmt.Errorf("read WAL at %s: %w", page, err)
		}
		s.pageAt, s.pageEnd = page, have
	}
	return s.page[from-s.pageAt : end-s.pageAt], nil
}
