package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The second peer is kube-rs: its reflector in kubers/src/main.rs, and the Echo operator
// on it in kubersecho/src/main.rs. It is measured where cargo is installed.
const (
	kubersPods    = "kube-rs/pods, managedFields cleared"
	kubersView    = "kube-rs/pods, three fields by hand"
	kubersWidgets = "kube-rs/custom resources"
)

// The names of the programs and of their directories. rustWorkspace names both.
const (
	kubersProgram = "kubers"
	kubersEcho    = "kubersecho"
	rustWorkspace = "Cargo.toml"
)

// errNoCargo is the reason why kube-rs is not measured.
var errNoCargo = errors.New("cargo is not installed")

// buildKubers builds both programs into dir, in release mode with link-time optimization.
// The first build takes some minutes; its results are kept in the user's cache.
func buildKubers(ctx context.Context, dir string) error {
	cargo, err := exec.LookPath("cargo")
	if err != nil {
		return errNoCargo
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("find the cache: %w", err)
	}
	target := filepath.Join(cache, "pintle", kubersProgram)
	cmd := exec.CommandContext(ctx, cargo, "build", "--release", "--quiet",
		"--manifest-path", rustWorkspace, "--target-dir", target)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs on kube-rs: %w\n%s", err, tail(string(output), 20))
	}
	for _, program := range []string{kubersProgram, kubersEcho} {
		binary, err := os.ReadFile(filepath.Join(target, "release", program))
		if err != nil {
			return fmt.Errorf("find the program that cargo built: %w", err)
		}
		err = os.WriteFile(filepath.Join(dir, program), binary, 0o755) //nolint:gosec // a program is executable
		if err != nil {
			return fmt.Errorf("copy the program that cargo built: %w", err)
		}
	}
	return nil
}

// kubersBuilt builds the program if it is to be measured. Without cargo it leaves the
// program out and writes that to out.
func kubersBuilt(ctx context.Context, out io.Writer, dir string, o options) (bool, error) {
	wanted := slices.ContainsFunc(subjects, func(s subject) bool {
		return s.program == kubersProgram && o.only.MatchString(s.name)
	})
	if !wanted {
		return false, nil
	}
	fmt.Fprintln(out, "Building the program of kube-rs; the first build takes minutes")
	err := buildKubers(ctx, dir)
	if errors.Is(err, errNoCargo) {
		fmt.Fprintf(out, "skipping kube-rs: %v\n", err)
		return false, nil
	}
	return err == nil, err
}

// kubersVersion returns the version of kube-rs that is measured.
func kubersVersion() (string, error) {
	file := filepath.Join(kubersProgram, "Cargo.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("find the version of kube-rs: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, `kube = { version = "=`); ok {
			version, _, _ := strings.Cut(rest, `"`)
			return version, nil
		}
	}
	return "", fmt.Errorf("find the version of kube-rs: %s does not pin the package kube", file)
}
