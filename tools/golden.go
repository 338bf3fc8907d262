package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// errStale is the error of a golden file that differs from the code.
var errStale = errors.New("golden file is out of date: if the change is intended, run make api and commit the result")

// writeFlag parses the one flag of the golden checks.
func writeFlag(name string, args []string) (bool, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	write := flags.Bool("write", false, "replace the golden file instead of comparing with it")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	return *write, nil
}

// golden compares lines with the file, or replaces it.
func golden(file string, lines []string, write bool) error {
	slices.Sort(lines)
	lines = slices.Compact(lines)
	want := []byte(strings.Join(lines, "\n") + "\n")
	if write {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("write golden file: %w", err)
		}
		if err := os.WriteFile(file, want, 0o644); err != nil {
			return fmt.Errorf("write golden file: %w", err)
		}
		fmt.Printf("%s: wrote %d lines\n", filepath.Base(file), len(lines))
		return nil
	}
	have, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read golden file: %w", err)
	}
	if err == nil && bytes.Equal(have, want) {
		fmt.Printf("%s: %d lines, unchanged\n", filepath.Base(file), len(lines))
		return nil
	}
	old := strings.Split(strings.TrimSuffix(string(have), "\n"), "\n")
	for _, line := range difference(old, lines) {
		fmt.Println(line)
	}
	return fmt.Errorf("%s: %w", filepath.Base(file), errStale)
}

// difference lists the lines that only have contains, marked "-", and those that only
// want contains, marked "+".
func difference(have, want []string) []string {
	var diff []string
	for _, line := range have {
		if line != "" && !slices.Contains(want, line) {
			diff = append(diff, "-"+line)
		}
	}
	for _, line := range want {
		if !slices.Contains(have, line) {
			diff = append(diff, "+"+line)
		}
	}
	return diff
}
