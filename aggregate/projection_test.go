package aggregate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
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
func (f *bench) watch(ctx context.Context, path string) <-chan event {
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
func (f *bench) next(events <-chan event, want string) event {
	f.Helper()
	late := time.After(time.Minute)
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
func (f *bench) pod(name, herd string) *corev1.Pod {
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

// testFresh reads the view of each pod at once after the pod was created. A read without a
// resource version is as fresh as one of the source: there is no store that could lag behind.
func testFresh(f *bench) {
	pods, views := kube.For[corev1.Pod](f.client).In(f.namespace), kube.For[PodView](f.client).In(f.namespace)
	for i := range 50 {
		p := new(corev1.Pod)
		p.Name, p.Spec.Containers = fmt.Sprint("pod-", i), []corev1.Container{{Name: "a", Image: "a"}}
		if _, err := pods.Create(f.Context(), p); err != nil {
			f.Fatal(err)
		}
		if _, err := views.Get(f.Context(), "view-"+p.Name); err != nil {
			f.Errorf("get the view of a pod that was just created: %v", err)
		}
		listed := 0
		for _, err := range views.List(f.Context()) {
			if err != nil {
				f.Fatal(err)
			}
			listed++
		}
		if listed != i+1 {
			f.Errorf("list %d views of %d pods", listed, i+1)
		}
	}
}

// testProjection reads views of pods in each way.
func testProjection(f *bench) {
	one := f.pod("one", "a")
	f.pod("two", "b")
	pods, views := kube.For[corev1.Pod](f.client).In(f.namespace), kube.For[PodView](f.client).In(f.namespace)

	got, err := views.Get(f.Context(), "view-one")
	switch {
	case err != nil:
		f.Fatal(err)
	case got.Spec.Containers != 2 || got.Namespace != f.namespace || got.ResourceVersion != one.ResourceVersion ||
		got.UID == one.UID || got.UID == "" || got.Labels["herd"] != "a" || !got.CreationTimestamp.Equal(&one.CreationTimestamp):
		f.Errorf("view %s of %s", indent(got), indent(one))
	}
	for _, name := range []string{"one", "view-", "view-none"} {
		_, err := views.Get(f.Context(), name)
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `podviews.self.example.com "`+name+`" not found`) {
			f.Errorf("get %s: %v", name, err)
		}
	}
	path := "/apis/" + group + "/v1alpha1/namespaces/" + f.namespace + "/podviews"
	names := func(query string) (found []string, list answer) {
		list = f.do("GET", path+query, "")
		var l struct{ Items []PodView }
		if err := json.Unmarshal([]byte(list.Body), &l); err != nil {
			f.Fatal(err)
		}
		for _, i := range l.Items {
			found = append(found, i.Name)
		}
		return found, list
	}
	for query, want := range map[string][]string{
		"":                                                 {"view-one", "view-two"},
		"?labelSelector=herd=b":                            {"view-two"},
		"?fieldSelector=metadata.name=view-one":            {"view-one"},
		"?fieldSelector=metadata.name=one":                 nil,
		"?fieldSelector=metadata.name!=view-one":           {"view-two"},
		"?fieldSelector=spec.node=none":                    nil,
		"?fieldSelector=spec.node=":                        {"view-one", "view-two"},
		"?fieldSelector=metadata.namespace=" + f.namespace: {"view-one", "view-two"},
		"?limit=1":                                         {"view-one"},
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
	if got, _ := names("?limit=1&continue=" + page.Metadata.Continue); !slices.Equal(got, []string{"view-two"}) {
		f.Errorf("second page: %v", got)
	}
	if got := f.do("GET", path, "", table); !strings.Contains(got.Body, `"cells":["view-one",2,`) {
		f.Errorf("table: %s", got.Body)
	}
	// The other version shows the same.
	if got := f.do("GET", strings.Replace(path, "v1alpha1", older, 1)+"/view-one", ""); got.Code != 200 || !strings.Contains(got.Body, `"apiVersion":"`+group+"/"+older+`"`) {
		f.Errorf("another version: %d %s", got.Code, got.Body)
	}
	for _, verb := range []string{"POST", "DELETE"} {
		if got := f.do(verb, path, "{}"); got.Code != 405 {
			f.Errorf("%s: %d %s", verb, got.Code, got.Body)
		}
	}

	if got := f.do("GET", path+"/view-one/phase", ""); got.Code != 200 || got.Body != "view-one is Pending" {
		f.Errorf("a subresource of a view: %d %s", got.Code, got.Body)
	}

	// Watches.
	ctx, stop := context.WithCancel(f.Context())
	defer stop()
	all := f.watch(ctx, path+"?watch=1&resourceVersion="+page.Metadata.ResourceVersion)
	herd := f.watch(ctx, path+"?watch=1&labelSelector=herd=a&resourceVersion="+page.Metadata.ResourceVersion)
	named := f.watch(ctx, path+"?watch=1&fieldSelector=metadata.name=view-two&resourceVersion="+page.Metadata.ResourceVersion)
	change := func(change func(*corev1.Pod)) {
		f.Helper()
		if _, err := pods.Modify(f.Context(), "two", func(p *corev1.Pod) error { change(p); return nil }); err != nil {
			f.Fatal(err)
		}
	}
	change(func(p *corev1.Pod) { p.Labels["herd"] = "a" })
	f.next(all, "MODIFIED view-two")
	f.next(named, "MODIFIED view-two")
	f.next(herd, "ADDED view-two")
	change(func(p *corev1.Pod) { p.Annotations = map[string]string{"hide": "yes"} })
	f.next(all, "DELETED view-two")
	change(func(p *corev1.Pod) { p.Labels["more"] = "yes" })
	change(func(p *corev1.Pod) { p.Annotations = nil })
	f.next(all, "ADDED view-two")
	change(func(p *corev1.Pod) { p.Labels["herd"] = "b" })
	f.next(all, "MODIFIED view-two")
	if err := pods.Delete(f.Context(), "two", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		f.Fatal(err)
	}
	// The pod may change once more before it is gone.
	for ev := range all {
		if ev.Type == "DELETED" && ev.Object.Metadata.Name == "view-two" {
			break
		}
	}

	// A streamed list ends with one bookmark.
	streamed := f.watch(ctx, path+"?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")
	f.next(streamed, "ADDED view-one")
	end := f.next(streamed, "BOOKMARK ")
	if end.Object.Metadata.Annotations["k8s.io/initial-events-end"] != "true" || end.Object.Kind != "PodView" || end.Object.Metadata.ResourceVersion == "" {
		f.Errorf("bookmark: %+v", end)
	}

	// A watch ends when the client asked for it.
	began := time.Now()
	for range f.watch(ctx, path+"?watch=1&timeoutSeconds=1") {
	}
	if took := time.Since(began); took < 900*time.Millisecond || took > 30*time.Second {
		f.Errorf("a watch of one second ends after %s", took)
	}
}

// testLeft follows pods whose views the client did not ask for. It may learn that a view is gone, and
// nothing else of it.
func testLeft(f *bench) {
	f.pod("shown", "a")
	pods := kube.For[corev1.Pod](f.client).In(f.namespace)
	change := func(name string, change func(*corev1.Pod)) {
		f.Helper()
		if _, err := pods.Modify(f.Context(), name, func(p *corev1.Pod) error { change(p); return nil }); err != nil {
			f.Fatal(err)
		}
	}
	f.pod("hidden", "secret")
	change("hidden", func(p *corev1.Pod) { p.Annotations = map[string]string{"hide": "yes"} })
	path := "/apis/" + group + "/v1alpha1/namespaces/" + f.namespace + "/podviews"
	list := f.do("GET", path, "")
	var l struct {
		Metadata struct{ ResourceVersion string }
	}
	f.ok(json.Unmarshal([]byte(list.Body), &l))
	all, stop := f.open(path + "?watch=1&resourceVersion=" + l.Metadata.ResourceVersion)
	defer stop()
	none, end := f.open(path + "?watch=1&fieldSelector=spec.node%3Dnowhere&resourceVersion=" + l.Metadata.ResourceVersion)
	defer end()
	bare := func(ev event) {
		f.Helper()
		m := ev.Object.Metadata
		if len(m.Labels) > 0 || len(m.Annotations) > 0 || ev.Object.Spec.Containers != 0 || m.UID == "" || m.ResourceVersion == "" {
			f.Errorf("the event shows %+v", ev)
		}
	}
	change("hidden", func(p *corev1.Pod) { p.Labels["more"] = "yes" })
	bare(f.next(all, "DELETED view-hidden"))
	bare(f.next(none, "DELETED view-hidden"))
	change("shown", func(p *corev1.Pod) { p.Labels["more"] = "yes" })
	f.next(all, "MODIFIED view-shown")
	bare(f.next(none, "DELETED view-shown"))
}

// open opens a watch that stop ends.
func (f *bench) open(path string) (events <-chan event, stop func()) {
	f.Helper()
	ctx, stop := context.WithCancel(f.Context())
	return f.watch(ctx, path), stop
}

// TestSoakOldWatch continues a watch from a version that the cluster has forgotten. The answer
// is that for the source.
func TestSoakOldWatch(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{Private: true, Nodes: 1})
	f := serveOn(t, plain(t), cluster)
	f.pod("one", "a")
	f.ok(cluster.Compact(t.Context()))
	f.ok(cluster.APIServer().Restart(t.Context()))
	first := func(path string) (got event) {
		f.answers("kube-apiserver serves "+path, http.StatusOK, func() answer { return f.do("GET", path, "") })
		events, stop := f.open(path + "?watch=1&resourceVersion=1&timeoutSeconds=5")
		defer stop()
		return <-events
	}
	source := first("/api/v1/namespaces/" + f.namespace + "/pods")
	view := first("/apis/" + group + "/v1alpha1/namespaces/" + f.namespace + "/podviews")
	if source.Type != "ERROR" || source.Object.Code != http.StatusGone {
		f.Errorf("watch from version 1: %+v", source)
	}
	if view.Type != source.Type || view.Object.Code != source.Object.Code {
		f.Errorf("watch from version 1: %+v, of the source %+v", view, source)
	}
}

// TestProjectionActs has subresources of a view: one that changes the source, at once, and one that
// streams. The view is read-only otherwise.
func TestProjectionActs(t *testing.T) {
	f := prepare(t, kubetest.Start(t, kubetest.Options{Nodes: 1}))
	server := plain(t)
	ended := make(chan bool)
	server.Kinds = []aggregate.Any{aggregate.Projection[corev1.Pod, PodView]{
		Definition: podViews(t), Source: kube.KindOf[corev1.Pod](), Prefix: "view-", View: view,
		Subresources: []aggregate.Subresource[PodView]{{
			Name: "restart",
			Serve: func(w http.ResponseWriter, r *http.Request, v *PodView) error {
				pods := kube.For[corev1.Pod](f.client).In(v.Namespace)
				_, err := pods.Modify(r.Context(), strings.TrimPrefix(v.Name, "view-"), func(p *corev1.Pod) error {
					if p.Labels["restarted"] != "" {
						return apierrors.NewConflict(corev1.Resource("pods"), p.Name, errors.New("it restarts already"))
					}
					p.Labels["restarted"] = "yes"
					return nil
				})
				if err == nil {
					_, err = fmt.Fprintf(w, "%s restarts", v.Name)
				}
				return err
			},
		}, {
			Name: "log", Verb: "get", Stream: true,
			Serve: func(w http.ResponseWriter, r *http.Request, v *PodView) error {
				defer close(ended)
				fmt.Fprintf(w, "line of %s\n", v.Name)
				err := http.NewResponseController(w).Flush()
				<-r.Context().Done() // the client reads the line while the request goes on
				return err
			},
		}},
	}}
	f.start(server)
	f.pod("one", "a")
	path := "/apis/" + group + "/v1alpha1/namespaces/" + f.namespace + "/podviews"
	for _, s := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/view-one/restart", "", 200, "view-one restarts"},
		{"POST", "/view-one/restart", "", 409, "it restarts already"},
		{"POST", "/view-none/restart", "", 404, `podviews.self.example.com \"view-none\" not found`},
		{"GET", "/view-one/restart", "", 405, "MethodNotAllowed"},
		{"POST", "/view-one/restart?dryRun=All", "", 400, "has no dry run"},
		{"POST", "/view-one/log", "", 405, "MethodNotAllowed"},
		{"GET", "/view-one", "", 200, `"restarted":"yes"`},
		{"PUT", "/view-one", "{}", 405, "MethodNotAllowed"},
		{"PATCH", "/view-one", "{}", 405, "MethodNotAllowed"},
		{"DELETE", "/view-one", "", 405, "MethodNotAllowed"},
	} {
		if got := f.do(s.method, path+s.path, s.body); got.Code != s.code || !strings.Contains(got.Body, s.want) {
			t.Errorf("%s %s: %d %s", s.method, s.path, got.Code, got.Body)
		}
	}
	if got := f.do("POST", path+"/view-one/restart", "", "Impersonate-User: nobody"); got.Code != http.StatusForbidden {
		t.Errorf("a subresource without the right: %d %s", got.Code, got.Body)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.cluster.Config().Host+path+"/view-one/log", http.NoBody)
	f.ok(err)
	resp, err := f.http.Do(req)
	f.ok(err)
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != "line of view-one" {
		t.Errorf("line %q: %v", lines.Text(), lines.Err())
	}
	resp.Body.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the program does not learn that the client has gone")
	}
}
