package state

import (
	"fmt"
	"os"
	"strings"
)

func mountsUnder(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var under []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		// Blanks are written as octal escapes. Our own directories below the chosen one
		// contain none.
		point := strings.ReplaceAll(fields[4], `\040`, " ")
		if strings.HasPrefix(point, dir+"/") {
			under = append(under, point)
		}
	}
	return under, nil
}
