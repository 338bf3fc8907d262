package kube

import "strconv"

// olderThan reports that resource version a is of before b. It is false where
// the two do not compare: most servers' are integers that grow, but that is
// promised only since 1.35, by KEP-5504.
func olderThan(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x < y
}

// reached reports that resource version a is b or later, where they compare.
func reached(a, b string) bool {
	if a == b {
		return a != ""
	}
	x, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseUint(b, 10, 64)
	return err == nil && x >= y
}

// numeric reports that a resource version compares with others.
func numeric(rv string) bool { return reached(rv, "0") }
