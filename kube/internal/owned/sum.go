package owned

import (
	"bytes"

	"github.com/pintle-go/pintle/kube/internal/scan"
)

// Sum returns a hash of a set in the format FieldsV1. It depends neither on the order of
// the set's members nor on white space and escapes in its JSON. The hash of an empty set
// is not zero. The hash of a missing set is zero.
func Sum(raw []byte) uint64 {
	var few [16]level // saves an allocation in nearly all cases
	open := few[:0]
	top := level{}
	for i := 0; i < len(raw); {
		switch raw[i] {
		case '{', '[':
			open = append(open, top)
			top = level{}
			i++
		case '}', ']':
			if len(open) == 0 {
				return top.sum // the JSON was malformed
			}
			within := mix(top.sum + 1)
			top, open = open[len(open)-1], open[:len(open)-1]
			top.add(within)
			i++
		case '"':
			end := endOfString(raw, i)
			text := hashOf(raw[i:end])
			if i = end; nextIs(raw, i, ':') {
				top.name = text
			} else {
				top.add(text)
			}
		case ' ', '\t', '\n', '\r', ',', ':':
			i++
		default:
			end := i + 1
			for end < len(raw) && bytes.IndexByte([]byte(" \t\n\r,:{}[]\""), raw[end]) < 0 {
				end++
			}
			top.add(hashOf(raw[i:end]))
			i = end
		}
	}
	return top.sum
}

// level is an object or an array that is being read.
type level struct {
	name uint64 // of the member that is being read
	sum  uint64
}

// add adds a value under the latest name. A sum does not depend on its order.
func (l *level) add(value uint64) {
	l.sum += mix(l.name ^ mix(value))
	l.name = 0
}

// endOfString returns the index behind the string that starts at i.
func endOfString(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// nextIs reports that c follows, behind white space.
func nextIs(raw []byte, i int, c byte) bool {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i < len(raw) && raw[i] == c
}

// hashOf is FNV-1a of a token. Strings may be escaped in several ways.
func hashOf(token []byte) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	if bytes.IndexByte(token, '\\') >= 0 {
		token = []byte(`"` + scan.Unquote(token) + `"`)
	}
	h := uint64(offset)
	for _, c := range token {
		h = (h ^ uint64(c)) * prime
	}
	return h
}

// mix spreads the bits of a hash, as the finalizer of MurmurHash3 does.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
