package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/pintle-go/pintle/bench/measure"
)

// changeOptions are the options of the measurement of changes.
type changeOptions struct {
	objects int
	rate    int // changes in a second
	lasts   time.Duration
}

// warmUp is the time between a list and the first change, and the time of changes before the
// measurement: the programs have shown all listed objects by then.
const warmUp = 15 * time.Second

func (o changeOptions) plan() *measure.Changes {
	warm := listedVersion + int64(o.rate)*int64(warmUp/time.Second)
	return &measure.Changes{Warm: warm, Last: warm + int64(float64(o.rate)*o.lasts.Seconds())}
}

// changingStore is the store of a subject whose objects change.
const changingStore = "changes"

// changeSubjects are in the order in which they run. The last one collects garbage as program.Main
// does where nothing is set.
var changeSubjects = []subject{
	{name: "peer/changes", program: "peer", store: changingStore, env: []string{"KUBE_FEATURE_WatchListClient=false"}},
	{name: "ours/changes", program: "ours", store: changingStore},
	{name: "ours/changes, GOGC=50", program: "ours", store: changingStore, env: []string{"GOGC=50"}},
}

// runChanges measures stores whose objects change. The server is played: no server on the same
// machine leaves enough of it for so many changes.
func runChanges(ctx context.Context, out io.Writer, dir string, o options) (rows []row, measured string, err error) {
	fmt.Fprintln(out, "Building the programs to measure")
	if err := build(ctx, dir); err != nil {
		return nil, "", err
	}
	fmt.Fprintf(out, "Changing %d of %d Pods a second for %s, for each program\n",
		o.changing.rate, o.changing.objects, o.changing.lasts)
	server, err := startPodServer(o.changing.objects, o.changing.rate)
	if err != nil {
		return nil, "", err
	}
	defer server.Close()
	if err := writeKubeconfig(server.config(), filepath.Join(dir, "kubeconfig")); err != nil {
		return nil, "", err
	}
	results := map[string][]measure.Result{}
	for _, s := range changeSubjects {
		if !o.only.MatchString(s.name) {
			continue
		}
		r, err := s.run(ctx, dir, o)
		if err != nil {
			return nil, "", err
		}
		if r.Objects != o.changing.objects {
			return nil, "", fmt.Errorf("%s holds %d objects, not %d", s.name, r.Objects, o.changing.objects)
		}
		fmt.Fprintf(out, "  %-34s cpu of a change %-8s RSS %-9s heap %-9s %d changes, %d shown\n",
			s.name, duration(r.Change), size(r.RSS), size(r.Heap), r.Changes, r.Shown)
		results[s.name] = append(results[s.name], r)
	}
	for _, f := range changeFigures(o.changing) {
		rows = append(rows, f.row(results))
	}
	return rows, changesMeasured(o.changing), nil
}

// changeFigures returns the promises about changes.
func changeFigures(o changeOptions) []figure {
	change := func(r measure.Result) float64 { return float64(r.Change) }
	rss := func(r measure.Result) float64 { return float64(r.RSS) }
	const peer, ours, early = "peer/changes", "ours/changes", "ours/changes, GOGC=50"
	const asMain = ", garbage collected as by program.Main"
	return []figure{
		{
			name: "a change of a Pod with an index and a watch: CPU time", peer: peer, ours: ours, value: change,
			show: asTime, target: shareOf("0.8", 0.8),
		},
		{name: "… the same" + asMain, peer: peer, ours: early, value: change, show: asTime},
		{name: fmt.Sprintf("… after %s: RSS", o.lasts), peer: peer, ours: ours, value: rss, show: asSize},
		{
			name: fmt.Sprintf("… after %s: RSS", o.lasts) + asMain, peer: peer, ours: early, value: rss, show: asSize,
			target: shareOf("1/3", 1./3),
		},
	}
}

// changesMeasured describes the measurement.
func changesMeasured(o changeOptions) string {
	return fmt.Sprintf(`Changes: %d Pods, %d changes a second for %s, sent by a played server over HTTP/2 with TLS, in protobuf. A change gives a Pod
another annotation. Both programs have one index and one function that gets each changed Pod. Peer: client-go %s, an informer with a transform that drops
managedFields. Ours: a store and a loop over its changes, with DecodeNow. CPU time of the program without the server; the sync and %s of changes are left out.
`, o.objects, o.rate, o.lasts, moduleVersion("k8s.io/client-go"), warmUp)
}
