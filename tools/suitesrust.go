package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// kubeRSVersion is the version of kube-rs. The versions of the crates that it uses stand
// in suites/kube-rs/Cargo.toml.
const kubeRSVersion = "5.0.0"

// A crate is a crate of kube-rs with tests.
type crate struct {
	name     string
	features []string
	// within are the features of kube that the tests use. The published crates lack them,
	// because a crate cannot depend on one that depends on it.
	within []string
	// without excludes tests. A test is a part of its name.
	without []exclusion
	// inPods are the tests that run programs in pods, which simulated nodes do not.
	inPods []exclusion
}

// kubeRSCrates are those that have tests for a cluster. The published crates have no
// examples and no integration tests. A test for openssl-tls is left out, because it needs
// the library of OpenSSL.
func kubeRSCrates() []crate {
	return []crate{
		{
			name: "kube", features: []string{"derive", "runtime"},
			inPods: []exclusion{
				{"pod_can_await_conditions", "its pod runs for a time; a simulated node completes such pods at once"},
			},
		},
		{
			name:     "kube-client",
			features: []string{"rustls-tls", "jsonpatch", "ws", "kubelet-debug"},
			within:   []string{"derive", "client", "ws"},
			without: []exclusion{
				{
					"pod_can_exec_and_write_to_stdin_from_node_proxy",
					"it expects a kubelet at localhost:10250; ours listens in the network of its node",
				},
			},
			inPods: []exclusion{
				{"pod_can_exec_and_write_to_stdin", "a simulated node runs no programs"},
				{"can_get_pod_logs_and_evict", "a simulated node has no logs"},
			},
		},
		{name: "kube-runtime", within: []string{"derive", "client", "runtime"}},
	}
}

// kubeRS runs the tests of kube-rs that need a cluster. Its authors marked them with
// ignore.
func (s *suites) kubeRS(ctx context.Context) error {
	if _, err := exec.LookPath("cargo"); err != nil {
		if os.Getenv("PINTLE_REQUIRE_CARGO") == "1" {
			return fmt.Errorf("find cargo: %w", err)
		}
		fmt.Println("suites: kube-rs is LEFT OUT: there is no cargo")
		return nil
	}
	in, err := s.kubeRSWorkspace(ctx)
	if err != nil {
		return err
	}
	// Compiling comes first, so that the cluster does not wait for it.
	if err := in.run(ctx, "cargo", append(cargoTest("--workspace"), "--no-run")...); err != nil {
		return err
	}
	simulated := lacksRealNode()
	flags := []string{"--nodes=0", "--node=real"}
	if simulated != "" {
		flags = nil
		fmt.Printf("suites: without a real node, and without the tests that run programs in pods: %s\n", simulated)
	}
	return s.onCluster(ctx, func(config string) error {
		in.env = append(in.env, "KUBECONFIG="+config)
		if simulated == "" {
			if err := s.loadShell(ctx); err != nil {
				return err
			}
		}
		var errs []error
		for _, c := range kubeRSCrates() {
			if simulated != "" {
				c.without = append(c.without, c.inPods...)
			}
			r, err := c.run(ctx, in)
			s.record(r)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}, flags...)
}

// loadShell gives the real node the image that the pods of the tests name.
func (s *suites) loadShell(ctx context.Context) error {
	program, archive := filepath.Join(s.dir, "sh"), filepath.Join(s.dir, "sh.tar")
	build := runner{dir: filepath.Join(s.repo.Dir, "tools"), env: s.env, timeout: 5 * time.Minute}
	if err := build.run(ctx, "go", "build", "-o", program, "./suites/sh"); err != nil {
		return err
	}
	if err := s.cluster.command(ctx, "image", "--image=busybox:stable", "-o", archive, "--binary", program); err != nil {
		return err
	}
	return s.cluster.command(ctx, "load", archive)
}

// cargoTest returns the arguments that compile all crates in the same way.
func cargoTest(which ...string) []string {
	args := append([]string{"test", "--lib"}, which...)
	var features []string
	for _, c := range kubeRSCrates() {
		for _, f := range c.features {
			features = append(features, c.name+"/"+f) // as cargo names the features of a member
		}
	}
	return append(args, "--features="+strings.Join(features, ","))
}

// kubeRSWorkspace makes a workspace of the crates, in the user's cache, so that they are
// compiled once.
func (s *suites) kubeRSWorkspace(ctx context.Context) (runner, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return runner{}, fmt.Errorf("find cache: %w", err)
	}
	dir := filepath.Join(cache, "pintle", "suites", "kube-rs-"+kubeRSVersion)
	in := runner{dir: dir, env: userEnv(), timeout: 30 * time.Minute}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return in, fmt.Errorf("make workspace: %w", err)
	}
	pins, err := os.ReadFile(filepath.Join(s.repo.Dir, "tools", "suites", "kube-rs", "Cargo.toml"))
	if err != nil {
		return in, fmt.Errorf("read versions of crates: %w", err)
	}
	members := []string{`"pins"`}
	var patches []string
	for _, c := range kubeRSCrates() {
		members = append(members, strconv.Quote(c.name))
		patches = append(patches, fmt.Sprintf("%s = { path = %q }", c.name, c.name))
		if _, err := os.Stat(filepath.Join(dir, c.name)); err == nil {
			continue
		}
		if err := s.unpack(ctx, c, dir); err != nil {
			return in, err
		}
	}
	manifest := fmt.Sprintf(
		"[workspace]\nresolver = \"3\"\nmembers = [%s]\n\n[patch.crates-io]\n%s\n\n[profile.dev]\ndebug = false\n",
		strings.Join(members, ", "), strings.Join(patches, "\n"),
	)
	return in, writeFiles(dir, map[string]string{
		"Cargo.toml":      manifest,
		"pins/Cargo.toml": string(pins),
		"pins/lib.rs":     "",
	})
}

// unpack copies the source of a crate into the workspace. Cargo downloads a crate only as
// the dependency of another one, so there is a package that depends on it.
func (s *suites) unpack(ctx context.Context, c crate, workspace string) error {
	dir := filepath.Join(s.dir, "fetch-"+c.name)
	manifest := fmt.Sprintf(
		"[package]\nname = \"fetch\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n\n[workspace]\n\n[dependencies]\n%s = { version = \"=%s\", default-features = false }\n",
		c.name, kubeRSVersion,
	)
	if err := writeFiles(dir, map[string]string{"Cargo.toml": manifest, "lib.rs": ""}); err != nil {
		return err
	}
	out, err := output(ctx, dir, userEnv(), "cargo", "metadata", "--format-version=1")
	if err != nil {
		return fmt.Errorf("fetch %s: %w", c.name, err)
	}
	var found struct {
		Packages []struct {
			Name, Version string
			Manifest      string `json:"manifest_path"`
		}
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return fmt.Errorf("fetch %s: %w", c.name, err)
	}
	for _, p := range found.Packages {
		if p.Name != c.name || p.Version != kubeRSVersion {
			continue
		}
		// An interrupted copy must not count as one.
		copied := filepath.Join(workspace, c.name)
		temp := copied + ".part"
		return errors.Join(
			os.RemoveAll(temp), os.CopyFS(temp, os.DirFS(filepath.Dir(p.Manifest))), c.complete(temp), os.Rename(temp, copied),
		)
	}
	return fmt.Errorf("fetch %s: cargo does not know version %s", c.name, kubeRSVersion)
}

// complete adds the dependency of the tests that the published crate lacks.
func (c crate) complete(dir string) error {
	if len(c.within) == 0 {
		return nil
	}
	file := filepath.Join(dir, "Cargo.toml")
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	data = fmt.Appendf(
		data,
		"\n[dev-dependencies.kube]\npath = \"../kube\"\nfeatures = [\"%s\"]\n",
		strings.Join(c.within, `", "`),
	)
	return os.WriteFile(file, data, 0o644)
}

// run runs the tests of a crate that are marked with ignore.
func (c crate) run(ctx context.Context, in runner) (result, error) {
	r := result{what: c.name + " " + kubeRSVersion}
	args := append(cargoTest("-p", c.name), "--", "--ignored", "--color=never")
	list, err := output(ctx, in.dir, in.env, "cargo", append(args, "--list")...)
	if err != nil {
		return r, fmt.Errorf("list tests of %s: %w", c.name, err)
	}
	for _, e := range c.without {
		fmt.Printf("  %s: without %q: %s\n", c.name, e.test, e.why)
		if !strings.Contains(list, e.test+": test\n") {
			return r, fmt.Errorf("%s has no test %q any more: remove the exclusion", c.name, e.test)
		}
		args = append(args, "--skip="+e.test)
		r.skipped++
	}
	begun := time.Now()
	out, failed := in.runUntil(ctx, "", "cargo", args...)
	r.took = time.Since(begun)
	counts := regexp.MustCompile(`(?m)^test result: .* (\d+) passed; (\d+) failed;`).FindStringSubmatch(out)
	if counts == nil {
		return r, errors.Join(failed, fmt.Errorf("the tests of %s have no result", c.name))
	}
	r.passed, _ = strconv.Atoi(counts[1]) // the pattern allows only digits
	r.failed, _ = strconv.Atoi(counts[2])
	return r, failed
}
