package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

// percentile returns the value below which a part of all values is.
func percentile(all []time.Duration, part float64) time.Duration {
	slices.Sort(all)
	return all[min(int(part*float64(len(all))), len(all)-1)]
}

// BenchmarkReads gets llamas and lists 1,000 of them, through kube-apiserver, from the program
// and from a twin with a definition in turn. The objects of both are as large: those of the twin get the
// status that the controller writes to the others. It fails if the program takes more than one and a half
// times as long at the 50th or the 99th percentile.
func BenchmarkReads(b *testing.B) {
	f := newFarm(b)
	client := optest.Client(b, f.cluster.Config())
	twin := kube.Kind{GVK: kube.GVK{Group: "twin.example.com", Version: version, Kind: "Llama"}, Plural: "llamas", Scope: kube.Namespaced}
	d := crd.Of[Llama](crd.Options{Kind: twin})
	f.ok(crd.Install(b.Context(), client, d))
	both := []kube.Resource[Llama]{f.llamas, kube.For[Llama](client, twin).In(f.namespace)}
	var sizes [2]int
	for which, llamas := range both {
		for i := range 1000 {
			l := new(Llama)
			l.Name, l.Spec.Weight, l.Spec.Height = fmt.Sprint("llama-", i), 110, 170
			l, err := llamas.Create(b.Context(), l)
			f.ok(err)
			if which == 0 {
				f.mood(l.Name, "content")
				continue
			}
			l.Status.Mood = "content"
			f.ok(llamas.Status().Ensure(b.Context(), l))
		}
		sizes[which] = len(f.read("/apis/" + llamas.Kind().Group + "/" + version + "/namespaces/" + f.namespace + "/llamas"))
	}
	if sizes[0] > sizes[1]*101/100 || sizes[1] > sizes[0]*101/100 {
		b.Fatalf("a list of the program has %d bytes, the twin's %d", sizes[0], sizes[1])
	}
	var gets, lists [2][]time.Duration
	for i := 0; b.Loop(); i++ {
		for which, llamas := range both {
			began := time.Now()
			_, err := llamas.Get(b.Context(), fmt.Sprint("llama-", i%1000))
			f.ok(err)
			gets[which] = append(gets[which], time.Since(began))
			if i%10 != 0 {
				continue
			}
			began = time.Now()
			for _, err := range llamas.List(b.Context()) {
				f.ok(err)
			}
			lists[which] = append(lists[which], time.Since(began))
		}
	}
	for name, took := range map[string][2][]time.Duration{"get": gets, "list": lists} {
		for _, part := range []float64{0.5, 0.99} {
			ours, theirs := percentile(took[0], part), percentile(took[1], part)
			ratio := float64(ours) / float64(theirs)
			b.ReportMetric(ratio, fmt.Sprintf("%s-p%d-ratio", name, int(100*part)))
			b.Logf("%s, p%d: %s, the twin's %s", name, int(100*part), ours, theirs)
			if len(took[0]) >= 200 && ratio > 1.5 {
				b.Errorf("%s: %.2f times the twin's at p%d", name, ratio, int(100*part))
			}
		}
	}
}

// latest is how late an event may come at the 99th percentile, and soon how long a start may take.
const latest, soon = 200 * time.Millisecond, time.Second

// BenchmarkWatch follows 1,000 farm pods while 100 pods a second change, whether or not earlier changes
// were seen. It reports how long after the time at which a change should begin its event comes. It fails
// if that is more than 200 ms at the 99th percentile of 500 changes or more.
func BenchmarkWatch(b *testing.B) {
	f := newFarmOf(b, &shipped)
	for i := range 1000 {
		p := new(corev1.Pod)
		p.Name, p.Spec.Containers = fmt.Sprint("pod-", i), []corev1.Container{{Name: "a", Image: "any:1"}}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		_, err := f.pods.Create(b.Context(), p)
		f.ok(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	type seen struct {
		change int
		at     time.Time
	}
	events, listed := make(chan seen, 100_000), make(chan struct{}) // a watch that waits for its reader is late
	synced := sync.OnceFunc(func() { close(listed) })
	go func() {
		defer close(events)
		for ev, err := range f.farmPods.Watch(ctx) {
			if err == nil && ev.Type == kube.Synced {
				synced()
			}
			if err == nil && ev.Object != nil && ev.Object.Labels["change"] != "" {
				n, _ := strconv.Atoi(ev.Object.Labels["change"])
				select {
				case events <- seen{n, time.Now()}:
				case <-ctx.Done():
				}
			}
		}
	}()
	<-listed
	var requests sync.WaitGroup
	var began []time.Time
	next := time.Now()
	for b.Loop() {
		time.Sleep(time.Until(next)) // the pace of the changes
		n := len(began)
		began = append(began, next)
		next = next.Add(10 * time.Millisecond)
		requests.Go(func() {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, n)
			if _, err := f.pods.Patch(ctx, fmt.Sprint("pod-", n%1000), types.MergePatchType, patch); err != nil {
				b.Error(err)
			}
		})
	}
	requests.Wait()
	var took []time.Duration
	late := time.After(patience)
	for len(took) < len(began) && !b.Failed() {
		select {
		case ev := <-events:
			took = append(took, ev.at.Sub(began[ev.change]))
		case <-late:
			b.Fatalf("%d of %d changes are seen", len(took), len(began))
		}
	}
	for _, part := range []float64{0.5, 0.99} {
		b.ReportMetric(float64(percentile(took, part).Microseconds())/1000, fmt.Sprintf("ms-p%d", int(100*part)))
	}
	if most := percentile(took, 0.99); len(took) >= 500 && most > latest {
		b.Errorf("the event of a change comes after %s at p99", most)
	}
}

var api = regexp.MustCompile(`the API server listens address=(\S+)`)

// BenchmarkStart starts the program. It fails if it is ready after more than a second in half of at
// least three starts. It reports that time, and how much
// memory it has when it is idle: with the pages of its file and of etcd's, which the kernel can
// drop at any time, and without.
func BenchmarkStart(b *testing.B) {
	f := newFarmOf(b, &shipped)
	f.kill()
	var ready []time.Duration
	insecure := &tls.Config{InsecureSkipVerify: true} // the time is the subject
	transport := &http.Transport{TLSClientConfig: insecure, DisableKeepAlives: true}
	for b.Loop() {
		began := time.Now()
		kubeconfig := optest.Kubeconfig(b, f.cluster.Config(), f.namespace, "")
		f.operator = f.program.Run(b, kubeconfig, "-addr=127.0.0.1:0", "-api=127.0.0.1:0", "-data="+f.data)
		address := api.FindStringSubmatch(optest.Expect(b, f.operator, "the API server listens"))[1]
		for {
			resp, err := (&http.Client{Transport: transport}).Get("https://" + address + "/readyz")
			if err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					break
				}
			}
			time.Sleep(5 * time.Millisecond) // it is part of the measurement
		}
		ready = append(ready, time.Since(began))
		b.StopTimer()
		time.Sleep(started + 5*time.Second) // it comes to rest
		rss, own := memory(b, f.operator.PID(), "VmRSS"), memory(b, f.operator.PID(), "RssAnon")
		b.ReportMetric(float64(rss), "MB")
		b.ReportMetric(float64(own), "MB-without-files")
		f.kill()
		b.StartTimer()
	}
	usual := percentile(ready, 0.5)
	b.ReportMetric(float64(usual.Milliseconds()), "ms-ready")
	if len(ready) >= 3 && usual > soon {
		b.Errorf("it is ready after %s", usual)
	}
}

// TestSoakIdle reads the memory of the idle program.
func TestSoakIdle(t *testing.T) {
	f := newFarmOf(t, &shipped)
	_, err := f.llama("dora", 110, 170)
	f.ok(err)
	f.mood("dora", "content")
	time.Sleep(started + 10*time.Second) // it comes to rest
	rss, own := memory(t, f.operator.PID(), "VmRSS"), memory(t, f.operator.PID(), "RssAnon")
	t.Logf("%d MB, of which %d MB are no pages of files", rss, own)
	if rss >= 80 {
		t.Errorf("%d MB", rss)
	}
}

// memory returns a figure of the resident memory of a process in MB.
func memory(b testing.TB, pid int, figure string) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip(err) // it is no Linux
	}
	_, line, _ := strings.Cut(string(text), figure+":")
	kilobytes, err := strconv.Atoi(strings.Fields(line)[0])
	if err != nil {
		b.Fatal(err)
	}
	return kilobytes / 1024
}
