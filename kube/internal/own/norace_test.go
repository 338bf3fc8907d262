//go:build !race

package own_test

const raceEnabled = false
