package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pintle-go/pintle/bench/fixture"
	"github.com/pintle-go/pintle/bench/measure"
)

// subject is one thing measured: a store in one of the two programs.
type subject struct {
	name    string
	program string
	store   string
	env     []string
}

// The names of the subjects.
const (
	peerPods         = "peer/pods"
	peerPodsListed   = "peer/pods, streaming list off"
	peerPodsStripped = "peer/pods, managedFields stripped"
	peerThree        = "peer/pods, three fields by a transform"
	peerWidgets      = "peer/custom resources"
	peerUnstructured = "peer/custom resources, unstructured"
	oursPods         = "ours/pods"
	oursView         = "ours/pods, three-field view"
	oursWidgets      = "ours/custom resources"
)

// subjects are in the order in which a round runs them.
var subjects = []subject{
	{name: peerPods, program: "peer", store: "pods"},
	{name: oursPods, program: "ours", store: "pods"},
	{name: peerPodsListed, program: "peer", store: "pods", env: []string{"KUBE_FEATURE_WatchListClient=false"}},
	{name: oursView, program: "ours", store: "view"},
	{name: peerPodsStripped, program: "peer", store: "pods-stripped"},
	{name: peerThree, program: "peer", store: "pods-three-fields"},
	{name: oursWidgets, program: "ours", store: "widgets"},
	{name: peerWidgets, program: "peer", store: "widgets"},
	{name: peerUnstructured, program: "peer", store: "widgets-unstructured"},
	{name: kubersPods, program: kubersProgram, store: "pods-cleared"},
	{name: kubersView, program: kubersProgram, store: "view"},
	{name: kubersWidgets, program: kubersProgram, store: "widgets"},
}

// limit is the longest time of one subject.
const limit = 5 * time.Minute

// run starts the subject's program and waits for its result.
func (s subject) run(ctx context.Context, dir string, o options) (measure.Result, error) {
	var r measure.Result
	var plan measure.Plan // reads nothing
	if !o.quick && s.store != changingStore {
		plan = planFor(o.objects)
	}
	longest := limit
	if s.store == changingStore {
		plan.Changes = o.changing.plan()
		longest += o.changing.lasts
	}
	if o.profiles != "" {
		file := strings.NewReplacer("/", "-", " ", "-", ",", "").Replace(s.name)
		plan.HeapProfile = filepath.Join(o.profiles, file+".heap")
		plan.CPUProfile = filepath.Join(o.profiles, file+".cpu")
	}
	input, err := json.Marshal(plan)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, s.program), s.store)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stdin = bytes.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("run %s: %w\n%s", s.name, err, tail(stderr.String(), 20))
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		return r, fmt.Errorf("read the result of %s: %w", s.name, err)
	}
	return r, nil
}

func planFor(objects int) measure.Plan {
	return measure.Plan{
		Objects:   objects,
		Apps:      fixture.FullApps(objects),
		Namespace: fixture.Namespace(3),
		SmallApps: fixture.FullAppsIn(3, objects),
	}
}

// build builds the measured programs into dir, as their users would. There are two
// programs, so that neither side carries the other's code and data.
func build(ctx context.Context, dir string) error {
	if _, err := os.Stat("peer"); err != nil {
		return fmt.Errorf("find the programs to measure: run this in the bench directory: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", dir+string(filepath.Separator), "./peer", "./ours")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs to measure: %w\n%s", err, output)
	}
	return nil
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
