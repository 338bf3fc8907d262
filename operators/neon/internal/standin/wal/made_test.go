package wal

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"sync"
)

// made is WAL that the tests make in PostgreSQL's form, as long as it is whole pages and
// records go.
type made struct {
	mu    sync.Mutex
	start LSN
	bytes []byte
}

func (m *made) System() uint64 { return 42 }

func (m *made) end() LSN {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.start + LSN(len(m.bytes))
}

func (m *made) ReadAt(p []byte, at int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return offset{readerAt(m.bytes), m.start}.ReadAt(p, at)
}

type readerAt []byte

func (r readerAt) ReadAt(p []byte, at int64) (int, error) {
	if at > int64(len(r)) {
		return 0, ErrMissing
	}
	n := copy(p, r[at:])
	if n < len(p) {
		return n, ErrMissing
	}
	return n, nil
}

// cut keeps the WAL before an LSN.
func (m *made) cut(end LSN) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes = m.bytes[: end-m.start : end-m.start]
}

// add appends a record with random content and returns its end.
func (m *made) add(random *rand.Rand, size int) LSN {
	m.mu.Lock()
	defer m.mu.Unlock()
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	head := make([]byte, recordHeader)
	binary.LittleEndian.PutUint32(head, uint32(recordHeader+size))
	head[16], head[17] = 0x10, 10
	sum := crc32.Update(crc32.Checksum(body, castagnoli), castagnoli, head[:20])
	binary.LittleEndian.PutUint32(head[20:], sum)
	rest := append(head, body...)
	for first := true; len(rest) > 0; first = false {
		at := m.start + LSN(len(m.bytes))
		if at%PageSize == 0 {
			m.page(at, len(rest), !first)
			at = m.start + LSN(len(m.bytes))
		}
		n := min(len(rest), int(PageSize-at%PageSize))
		m.bytes = append(m.bytes, rest[:n]...)
		rest = rest[n:]
	}
	for len(m.bytes)%alignment != 0 {
		m.bytes = append(m.bytes, 0)
	}
	return m.start + LSN(len(m.bytes))
}

func (m *made) page(at LSN, rest int, continued bool) {
	size := pageHeader
	if at%SegmentSize == 0 {
		size = longHeader
	}
	header := make([]byte, size)
	if continued {
		binary.LittleEndian.PutUint16(header[2:], firstIsContinued)
		binary.LittleEndian.PutUint32(header[16:], uint32(rest))
	}
	binary.LittleEndian.PutUint64(header[8:], uint64(at))
	m.bytes = append(m.bytes, header...)
}
