package process

import (
	"bufio"
	"io"
	"os"
	"regexp"
	"strings"
)

// LastWords returns the last lines, at most n, of a log from an offset on: those that tell why
// a program has ended. If it crashed, they are the last ones before the stacks of its goroutines.
// LastWords returns none if the file cannot be read.
func LastWords(file string, from int64, n int) (lines []string) {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil
	}
	crash, crashed := regexp.MustCompile(`^(panic|fatal error|SIG[A-Z]+): |^F\d{4} `), false
	for r := bufio.NewReader(f); err == nil; {
		var line string
		line, err = r.ReadString('\n')
		line = strings.TrimRight(line, "\n")
		if crashed && strings.HasPrefix(line, "goroutine ") {
			break
		}
		crashed = crashed || crash.MatchString(line)
		if line != "" {
			lines = append(lines, line)[max(0, len(lines)+1-n):]
		}
	}
	return lines
}

// Tail returns the last lines of a file, at most n lines and at most 16 KiB. It returns
// none if the file cannot be read.
func Tail(file string, n int) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	const limit = 16 << 10
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		if _, err := f.Seek(-limit, io.SeekEnd); err != nil {
			return nil
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines[max(0, len(lines)-n):]
}
