package aggregate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// event is an event of a watch.
type event struct {
	Type   string
	Object struct {
		Kind     string
		Code     int
		Metadata struct {
			Name, Namespace, ResourceVersion, UID string
			Labels, Annotations                   map[string]string
		}
		Spec struct {
			Containers int
			Node       string
		}
	}
}

// watch sends the events of a watch until ctx ends.
func (f *farm) watch(ctx context.Context, path string) <-chan event {
	f.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.cluster.Config().Host+path, nil)
	if err != nil {
		f.Fatal(err)
	}
	resp, err := f.http.Do(req)
	if err != nil {
		f.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		f.Fatalf("watch %s: %s", path, resp.Status)
	}
	events := make(chan event)
	go func() {
		defer close(events)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var ev event
			if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
				return
			}
			select {
			case events <- ev:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// next returns the next event but bookmarks, or those that are wanted.
func (f *farm) next(events <-chan event, want string) event {
	f.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				f.Fatalf("the watch has ended, want %s", want)
			}
			if got := ev.Type + " " + ev.Object.Metadata.Name; got == want {
				return ev
			} else if ev.Type != "BOOKMARK" {
				f.Fatalf("event %s, want %s", got, want)
			}
		case <-late:
			f.Fatalf("no event %s", want)
		}
	}
}

// pod creates a pod that stays pending, unless node is set.
func (f *farm) pod(name, herd string) *corev1.Pod {
	f.Helper()
	p := new(corev1.Pod)
	p.Name, p.Namespace, p.Labels = name, f.namespace, map[string]string{"herd": herd}
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}, {Name: "b", Image: "b"}}
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	if _, err := kube.For[corev1.Pod](f.client).Create(f.Context(), p); err != nil {
		f.Fatal(err)
	}
	// The scheduler reports that it leaves the pod alone. Nobody changes the pod after that.
	p, err := kube.For[corev1.Pod](f.client).In(f.namespace).Until(f.Context(), name, func(p *corev1.Pod) bool { return len(p.Status.Conditions) > 0 })
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// testProjection reads views of pods in each way.
func testProjection(f *farm) {
	one := f.pod("one", "a")
	f.pod("two", "b")
	pods, views := kube.For[corev1.Pod](f.client).In(f.namespace), kube.For[FarmPod](f.client).In(f.namespace)

	got, err := views.Get(f.Context(), "farm-one")
	switch {
	case err != nil:
		f.Fatal(err)
	case got.Spec.Containers != 2 || got.Namespace != f.namespace || got.ResourceVersion != one.ResourceVersion ||
		got.UID == one.UID || got.UID == "" || got.Labels["herd"] != "a" || !got.CreationTimestamp.Equal(&one.CreationTimestamp):
		f.Errorf("view %s of %s", indent(got), indent(one))
	}
	for _, name := range []string{"one", "farm-", "farm-none"} {
		_, err := views.Get(f.Context(), name)
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `farmpods.farm.example.com "`+name+`" not found`) {
			f.Errorf("get %s: %v", name, err)
		}
	}
	path := "/apis/" + group + "/v1alpha1/namespaces/" + f.namespace + "/farmpods"
	names := func(query string) (found []string, list answer) {
		list = f.do("GET", path+query, "")
		var l struct{ Items []FarmPod }
		if err := json.Unmarshal([]byte(list.Body), &l); err != nil {
			f.Fatal(err)
		}
		for _, i := range l.Items {
			found = append(found, i.Name)
		}
		return found, list
	}
	for query, want := range map[string][]string{
		"":                                                 {"farm-one", "farm-two"},
		"?labelSelector=herd=b":                            {"farm-two"},
		"?fieldSelector=metadata.name=farm-one":            {"farm-one"},
		"?fieldSelector=metadata.name=one":                 nil,
		"?fieldSelector=metadata.name!=farm-one":           {"farm-two"},
		"?fieldSelector=spec.node=none":                    nil,
		"?fieldSelector=spec.node=":                        {"farm-one", "farm-two"},
		"?fieldSelector=metadata.namespace=" + f.namespace: {"farm-one", "farm-two"},
		"?limit=1":                                         {"farm-one"},
	} {
		if got, list := names(query); list.Code != 200 || !slices.Equal(got, want) {
			f.Errorf("list %s: %v, want %v: %s", query, got, want, list.Body)
		}
	}
	if got := f.do("GET", path+"?fieldSelector=spec.containers=2", ""); got.Code != 400 {
		f.Errorf("a field that is not selectable: %d %s", got.Code, got.Body)
	}
	// Pages go on where the source's pages go on.
	_, first := names("?limit=1")
	var page struct {
		Metadata struct{ Continue, ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(first.Body), &page); err != nil || page.Metadata.Continue == "" {
		f.Fatalf("first page: %v %s", err, first.Body)
	}
	if got, _ := names("?limit=1&continue=" + page.Metadata.Continue); !slices.Equal(got, []string{"farm-two"}) {
		f.Errorf("second page: %v", got)
	}
	if got := f.do("GET", path, "", table); !strings.Contains(got.Body, `"cells":["farm-one",2,`) {
		f.Errorf("table: %s", got.Body)
	}
	for _, verb := range []string{"POST", "DELETE"} {
		if got := f.do(verb, path, "{}"); got.Code != 405 {
			f.Errorf("%s: %d %s", verb, got.Code, got.Body)
		}
	}

	// Watches.
	ctx, stop := context.WithCancel(f.Context())
	defer stop()
	all := f.watch(ctx, path+"?watch=1&resourceVersion="+page.Metadata.ResourceVersion)
	herd := f.watch(ctx, path+"?watch=1&labelSelector=herd=a&resourceVersion="+page.Metadata.ResourceVersion)
	named := f.watch(ctx, path+"?watch=1&fieldSelector=metadata.name=farm-two&resourceVersion="+page.Metadata.ResourceVersion)
	change := func(change func(*corev1.Pod)) {
		f.Helper()
		if _, err := pods.Modify(f.Context(), "two", func(p *corev1.Pod) error { change(p); return nil }); err != nil {
			f.Fatal(err)
		}
	}
	change(func(p *corev1.Pod) { p.Labels["herd"] = "a" })
	f.next(all, "MODIFIED farm-two")
	f.next(named, "MODIFIED farm-two")
	f.next(herd, "ADDED farm-two")
	change(func(p *corev1.Pod) { p.Annotations = map[string]string{"hide": "yes"} })
	f.next(all, "DELETED farm-two")
	change(func(p *corev1.Pod) { p.Labels["more"] = "yes" })
	change(func(p *corev1.Pod) { p.Annotations = nil })
	f.next(all, "ADDED farm-two")
	change(func(p *corev1.Pod) { p.Labels["herd"] = "b" })
	f.next(all, "MODIFIED farm-two")
	if err := pods.DeleteWith(f.Context(), "two", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		f.Fatal(err)
	}
	// The pod may change once more before it is gone.
	for ev := range all {
		if ev.Type == "DELETED" && ev.Object.Metadata.Name == "farm-two" {
			break
		}
	}

	// A streamed list ends with one bookmark.
	streamed := f.watch(ctx, path+"?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")
	f.next(streamed, "ADDED farm-one")
	end := f.next(streamed, "BOOKMARK ")
	if end.Object.Metadata.Annotations["k8s.io/initial-events-end"] != "true" || end.Object.Kind != "FarmPod" || end.Object.Metadata.ResourceVersion == "" {
		f.Errorf("bookmark: %+v", end)
	}

	// A watch ends when the client asked for it.
	began := time.Now()
	for range f.watch(ctx, path+"?watch=1&timeoutSeconds=1") {
	}
	if took := time.Since(began); took < 900*time.Millisecond || took > 10*time.Second {
		f.Errorf("a watch of one second ends after %s", took)
	}
}
