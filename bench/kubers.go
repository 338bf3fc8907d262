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
)

// The second peer is kube-rs's reflector, in kubers/src/main.rs. It is measured where
// cargo is installed.
const (
	kubersPods    = "kube-rs/pods, managedFields cleared"
	kubersView    = "kube-rs/pods, three fields by hand"
	kubersWidgets = "kube-rs/custom resources"
)

// kubersProgram is the name of the program and of its directory.
const kubersProgram = "kubers"

// errNoCargo is the reason why kube-rs is not measured.
var errNoCargo = errors.New("cargo is not installed")

// buildKubers builds the program into dir, in release mode with link-time optimization.
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
		"--manifest-path", filepath.Join(kubersProgram, "Cargo.toml"), "--target-dir", target)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", kubersProgram, err, tail(string(output), 20))
	}
	binary, err := os.ReadFile(filepath.Join(target, "release", kubersProgram))
	if err != nil {
		return fmt.Errorf("find the program that cargo built: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, kubersProgram), binary, 0o755) //nolint:gosec // a program is executable
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
