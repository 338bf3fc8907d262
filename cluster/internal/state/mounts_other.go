//go:build !linux

package state

// Only the real node mounts anything, and it is for Linux.
func mountsUnder(string) ([]string, error) { return nil, nil }
