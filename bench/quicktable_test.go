package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/bench/measure"
	"github.com/pintle-go/pintle/bench/peerecho/api"
)

// measured are results in which every figure has another value.
func measured() quickResults {
	r := quickResults{
		sizes:    served{version: "v1.36.3", pod: 8950, widget: 2060},
		stores:   map[string][]measure.Result{},
		binaries: map[string]float64{peerEcho: 33 * megabyte, kubersEcho: 6 * megabyte, oursEcho: 17 * megabyte},
		idle:     map[string][]float64{peerEcho: {60 * megabyte}, kubersEcho: {11 * megabyte}, oursEcho: {29 * megabyte}},
		written:  map[string]int{peerEcho: 201, kubersEcho: 202, oursEcho: 203},
		deepcopy: 91, crd: 148, cargo: true,
	}
	for i, name := range quickSubjects {
		for run := range 3 {
			v := 10*(i+1) + run
			r.stores[name] = append(r.stores[name], measure.Result{
				PeakRSS: uint64(v) * megabyte, CPU: time.Duration(v) * time.Second, Sync: time.Duration(v) * time.Minute})
		}
	}
	return r
}

var testTitles = [4]string{"", "a", "b", "c"}

func TestQuickTable(t *testing.T) {
	got := markdown(testTitles, measured().rows(20_000), measured().notes())
	want := `| | a | b | c |
| --- | --- | --- | --- |
| Cache of 20,000 Pods of 9 KB: peak memory | 11.0 MB | 21.0 MB | 31.0 MB |
| Cache of 20,000 Pods of 9 KB: CPU time until synced | 11.00 s | 21.00 s | 31.00 s |
| Cache of 20,000 Pods of 9 KB: time until synced | 660.00 s | 1260.00 s | 1860.00 s |
| Cache of three fields of these Pods: peak memory | 41.0 MB | 51.0 MB | 61.0 MB |
| Cache of three fields of these Pods: CPU time until synced | 41.00 s | 51.00 s | 61.00 s |
| Cache of 20,000 custom resources of 2 KB: peak memory | 71.0 MB | 81.0 MB | 91.0 MB |
| Cache of 20,000 custom resources of 2 KB: CPU time until synced | 71.00 s | 81.00 s | 91.00 s |
| Cache of 20,000 custom resources of 2 KB: time until synced | 4260.00 s | 4860.00 s | 5460.00 s |
| Operator Echo: stripped binary | 33.0 MB | 6.0 MB | 17.0 MB |
| Operator Echo: memory when idle | 60.0 MB | 11.0 MB | 29.0 MB |
| Operator Echo: lines of code | 201 | 202 | 203 |
| Operator Echo: generated lines beside it | 91 of Go, 148 of YAML | none | none |

`
	if !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(got, "medians of 3 runs") || strings.Contains(got, "not measured") {
		t.Errorf("the notes are\n%s", strings.TrimPrefix(got, want))
	}
	for line := range strings.Lines(got) {
		if len(line) > 120 && !strings.HasPrefix(line, "|") {
			t.Errorf("a long line: %s", line)
		}
	}
	if got := squeeze(
		text(testTitles, measured().rows(20_000), nil),
	); !strings.Contains(
		got, "Operator Echo: lines of code|201|202|203\n",
	) {
		t.Errorf("got\n%s", got)
	}
}

// Without cargo the column of kube-rs says so, and the lines of code are still there.
func TestQuickTableWithoutCargo(t *testing.T) {
	r := measured()
	r.cargo = false
	for _, name := range []string{kubersPods, kubersView, kubersWidgets} {
		delete(r.stores, name)
	}
	delete(r.binaries, kubersEcho)
	delete(r.idle, kubersEcho)
	got := markdown(testTitles, r.rows(20_000), r.notes())
	if n := strings.Count(got, "| no cargo |"); n != 10 {
		t.Errorf("%d cells say that there is no cargo, want 10, in\n%s", n, got)
	}
	for _, want := range []string{"lines of code | 201 | 202 | 203 |", "not measured: cargo is not installed"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestWriteTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	write := func(document string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# Name\n\n" + tableBegin + "\nold\n" + tableEnd + "\n\nThe end.\n")
	for range 2 { // the second time nothing changes
		if err := writeTable(file, "| new |\n"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if want := "# Name\n\n" + tableBegin + "\n\n| new |\n\n" + tableEnd + "\n\nThe end.\n"; string(got) != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	for _, document := range []string{"# Name\n", tableBegin, tableEnd, tableEnd + tableBegin} {
		write(document)
		if err := writeTable(file, "| new |\n"); err == nil {
			t.Errorf("there was no error for %q", document)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != document {
			t.Errorf("%q became %q, %v", document, got, err)
		}
	}
}

// The table in the README has the columns and the lines that the bench prints.
func TestREADMETable(t *testing.T) {
	document, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _, err := between(string(document))
	if err != nil {
		t.Fatal(err)
	}
	heads, err := titles()
	if err != nil {
		t.Fatal(err)
	}
	heads[1] = "controller-runtime " // a test does not know the version
	wanted := []string{"| | " + heads[1], " | " + heads[2] + " | " + heads[3] + " |"}
	size := regexp.MustCompile(` of \d+ KB`) // it is measured too
	table = size.ReplaceAllString(table, "")
	for _, r := range measured().rows(20_000) {
		wanted = append(wanted, "\n| "+size.ReplaceAllString(r.figure, "")+" | ")
	}
	for _, want := range wanted {
		if !strings.Contains(table, want) {
			t.Errorf("README.md lacks %q: run make bench-quick WRITE=README.md", want)
		}
	}
}

func TestCheckChildren(t *testing.T) {
	check := func(change func(*api.Echo, *appsv1.Deployment, *corev1.Service)) error {
		yes := true
		e := &api.Echo{Spec: api.EchoSpec{Replicas: 1}, Status: api.EchoStatus{ReadyReplicas: 1, Selector: "app=echo"}}
		e.UID, e.Finalizers = "one", []string{"example.com/finalizer"}
		owners := []metav1.OwnerReference{{UID: "one", Controller: &yes}}
		d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}}
		s := &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "echo"}}}
		d.OwnerReferences, s.OwnerReferences = owners, owners
		change(e, d, s)
		return checkChildren(e, d, s)
	}
	if err := check(func(*api.Echo, *appsv1.Deployment, *corev1.Service) {}); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*api.Echo, *appsv1.Deployment, *corev1.Service){
		"a Deployment of another":         func(_ *api.Echo, d *appsv1.Deployment, _ *corev1.Service) { d.OwnerReferences = nil },
		"a Service of another":            func(_ *api.Echo, _ *appsv1.Deployment, s *corev1.Service) { s.OwnerReferences = nil },
		"no finalizer":                    func(e *api.Echo, _ *appsv1.Deployment, _ *corev1.Service) { e.Finalizers = nil },
		"a Deployment that is not ready":  func(_ *api.Echo, d *appsv1.Deployment, _ *corev1.Service) { d.Status.AvailableReplicas = 0 },
		"a wrong number of ready servers": func(e *api.Echo, _ *appsv1.Deployment, _ *corev1.Service) { e.Status.ReadyReplicas = 2 },
		"a wrong selector":                func(e *api.Echo, _ *appsv1.Deployment, _ *corev1.Service) { e.Status.Selector = "app=foo" },
		"no selector": func(e *api.Echo, _ *appsv1.Deployment, s *corev1.Service) {
			e.Status.Selector, s.Spec.Selector = "", nil
		},
	} {
		if check(change) == nil {
			t.Errorf("there was no error for an Echo with %s", what)
		}
	}
}
