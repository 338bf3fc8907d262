package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/bench/fixture"
	"github.com/pintle-go/pintle/bench/measure"
)

// A target is judged on medians, and an unmeasured one is not met.
func TestTable(t *testing.T) {
	results := map[string][]measure.Result{
		peerPods: {
			{Heap: 100 * megabyte, Sync: 2 * time.Second}, {Heap: 300 * megabyte, Sync: time.Second},
			{Heap: 900 * megabyte, Sync: 3 * time.Second},
		},
		oursPods: {
			{Heap: 60 * megabyte, Sync: 1500 * time.Millisecond}, {Heap: 10 * megabyte, Sync: 1500 * time.Millisecond},
			{Heap: 90 * megabyte, Sync: time.Millisecond},
		},
	}
	var out bytes.Buffer
	rows := append(storeRows(results),
		row{name: "foo: image", ours: []float64{8 * megabyte}, target: under(7 * megabyte), show: asSize},
		row{name: "foo: idle", ours: []float64{7}, target: under(7), show: asCount},
		row{name: "foo: binary", ours: []float64{0}, err: os.ErrNotExist, target: under(20), show: asCount})
	if err := table(&out, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"full Pods: live heap|300.0 MB|60.0 MB|0.200|≤ 1/5 of the peer's|yes",
		"full Pods: time to sync|2.00 s|1.50 s|0.750|≤ 0.7 of the peer's|NO",
		"full Pods: live heap, vs streaming list off|60.0 MB|≤ 1/5 of the peer's|not measured",
		"foo: image|8.0 MB|< 7.0 MB|NO",
		"foo: idle|7|< 7|NO",
		"foo: binary|not built|< 20|not built",
	} {
		if !strings.Contains(squeeze(out.String()), want) {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
}

// squeeze puts one | in the place of the space between columns.
func squeeze(table string) string {
	var b strings.Builder
	for line := range strings.Lines(table) {
		var cells []string
		for cell := range strings.SplitSeq(line, "  ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				cells = append(cells, cell)
			}
		}
		b.WriteString(strings.Join(cells, "|") + "\n")
	}
	return b.String()
}

// Every figure is about subjects that are run, and every subject is in a figure.
func TestFiguresNameSubjects(t *testing.T) {
	used := map[string]bool{}
	for _, f := range figures() {
		used[f.peer], used[f.ours] = true, true
	}
	for _, s := range subjects {
		if !used[s.name] {
			t.Errorf("%s is in no figure", s.name)
		}
		delete(used, s.name)
	}
	delete(used, "") // the lines between groups
	for name := range used {
		t.Errorf("a figure is of %q, which is not run", name)
	}
}

// The groups that are looked up are complete and in the expected namespace.
func TestApps(t *testing.T) {
	const n = 4321
	size, namespace := map[string]int{}, map[string]string{}
	for i := range n {
		size[fixture.App(i)]++
		if before, ok := namespace[fixture.App(i)]; ok && before != fixture.Namespace(i) {
			t.Fatalf("%s is in %s and %s", fixture.App(i), before, fixture.Namespace(i))
		}
		namespace[fixture.App(i)] = fixture.Namespace(i)
	}
	if got := len(fixture.FullApps(n)); got != 40 {
		t.Errorf("%d whole groups, not 40", got)
	}
	for _, app := range append(fixture.FullApps(n), fixture.FullAppsIn(3, n)...) {
		if size[app] != fixture.AppSize {
			t.Errorf("%s has %d members", app, size[app])
		}
	}
	for _, app := range fixture.FullAppsIn(3, n) {
		if namespace[app] != fixture.Namespace(3) {
			t.Errorf("%s is in %s", app, namespace[app])
		}
	}
}

// The size of an image is that of its manifest, its configuration and its layers.
func TestImageSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for name, content := range map[string]string{
		"index.json":        `{"manifests": [{"digest": "sha256:aa", "size": 300}]}`,
		"blobs/sha256/aa":   `{"config": {"size": 1000}, "layers": [{"size": 5000000}, {"size": 700000}]}`,
		"blobs/sha256/bb":   "a layer",
		"manifest.json":     "[]",
		"oci-layout":        "{}",
		"blobs/sha256/cfg0": "{}",
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := imageSize(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(300 + 1000 + 5_000_000 + 700_000); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}
