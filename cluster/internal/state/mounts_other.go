//go:build !linux

package state

// Only the real node makes mounts, and it needs Linux.
func mountsUnder(string) ([]string, error) { return nil, nil }
