// Package versions compares the resource versions of Kubernetes objects. Kubernetes promises since
// 1.35 that they are integers that grow, by KEP-5504. The versions of other servers may not be.
package versions

import "strconv"

// Older reports that resource version a is older than b. It returns false if the two cannot be
// compared.
func Older(a, b string) bool {
	x, y, ok := parse(a, b)
	return ok && x < y
}

// Reached reports that resource version a is b or later. It returns false if the two cannot be
// compared.
func Reached(a, b string) bool {
	if a == b {
		return a != ""
	}
	x, y, ok := parse(a, b)
	return ok && x >= y
}

// Later returns the later one of two resource versions. If the two cannot be compared, it returns a,
// unless a is empty.
func Later(a, b string) string {
	if a == "" || Older(a, b) {
		return b
	}
	return a
}

// Number returns a resource version as a number, and whether it can be compared with others.
func Number(v string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(v, 10, 64)
	return n, err == nil
}

// Numeric reports that a resource version can be compared with others.
func Numeric(v string) bool {
	_, ok := Number(v)
	return ok
}

func parse(a, b string) (x, y uint64, ok bool) {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	y, err = strconv.ParseUint(b, 10, 64)
	return x, y, err == nil
}
