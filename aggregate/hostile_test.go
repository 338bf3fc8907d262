package aggregate_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/manifest"
)

// testHostile sends requests that try to reach more than the kinds that are served.
func testHostile(f *bench) {
	base := "/apis/" + group + "/v1alpha1/"
	views := base + "namespaces/" + f.namespace + "/podviews"
	// A name that is a step in a path would read another object of the cluster, with the rights of
	// the program: ".." is the namespace itself, and "." the list of all pods.
	for _, name := range []string{"view-..", "view-.", "view-%2e%2e", "view-..%2f..%2fkube-system", "view-x%25", "view-x%3fwatch=1"} {
		for _, path := range []string{views + "/" + name, views + "/" + name + "/", base + "podviews/" + name} {
			if got := f.do("GET", path, ""); got.Code < 400 || got.Code >= 500 || strings.Contains(got.Body, `"PodView"`) {
				f.Errorf("GET %s: %d %s", path, got.Code, got.Body)
			}
		}
		if got := f.do("GET", views+"?fieldSelector=metadata.name="+name, ""); got.Code != 200 && got.Code != 400 || strings.Contains(got.Body, `"uid"`) {
			f.Errorf("list the name %s: %d %s", name, got.Code, got.Body)
		}
	}
	for _, namespace := range []string{"%2e%2e", "%2e", "..%2fnodes"} {
		for _, rest := range []string{"", "/view-a", "/view-.."} {
			path := base + "namespaces/" + namespace + "/podviews" + rest
			if got := f.do("GET", path, ""); got.Code < 400 {
				f.Errorf("GET %s: %d %s", path, got.Code, got.Body)
			}
		}
	}
	// Deprecated and unknown forms of paths, and names in another case.
	for path, want := range map[string]int{
		base + "proxy/namespaces/" + f.namespace + "/podviews/view-a": http.StatusMethodNotAllowed,
		base + "namespaces/" + f.namespace + "/PodViews":              http.StatusNotFound,
		base + "namespaces/" + f.namespace + "/podviews/a/status":     http.StatusNotFound,
		base + "namespaces/" + f.namespace + "/samples/a/cry":         http.StatusMethodNotAllowed, // it is for POST
		base + "namespaces/" + f.namespace + "/samples/none/log":      http.StatusNotFound,
		base + "samples/none/log":                                     http.StatusBadRequest,
	} {
		if got := f.do("GET", path, ""); got.Code != want {
			f.Errorf("GET %s: %d, want %d: %s", path, got.Code, want, got.Body)
		}
	}
}

// testNumbers writes numbers that the program's type cannot hold.
func testNumbers(f *bench) {
	for _, number := range []string{"3000000000", "9223372036854775807", "1e30", "1.5", "-1e400"} {
		spec := `{"weight":1,"height":1,"age":` + number + `}`
		own, other := f.do("POST", f.path(group, ""), strings.ReplaceAll(sample("number", spec), "{g}", group)),
			f.do("POST", f.path(twin, ""), strings.ReplaceAll(sample("number", spec), "{g}", twin))
		if own.Code != http.StatusUnprocessableEntity && own.Code != other.Code {
			f.Errorf("age %s: %d %s, the twin's %d %s", number, own.Code, own.Body, other.Code, other.Body)
		}
		f.Logf("age %s: %d", number, own.Code)
		f.do("DELETE", f.path(twin, "")+"/number", "")
		f.do("DELETE", f.path(group, "")+"/number", "")
	}
}

// testPanic shows a pod whose view panics. The list fails and the watch reports it, but the
// program goes on. So it does after a panic of another function.
func testPanic(f *bench) {
	if _, err := f.create(f.namespace, "panics"); !apierrors.IsServiceUnavailable(err) {
		f.Errorf("create an object whose validation panics: %v", err)
	}
	_, err := f.create(f.namespace, "anna")
	f.ok(err)
	path := "/apis/" + group + "/v1alpha1/namespaces/" + f.namespace + "/podviews"
	events, stop := f.open(path + "?watch=1")
	defer stop()
	p := new(corev1.Pod)
	p.Name, p.Annotations = "bad", map[string]string{"panic": "yes"}
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}}
	pods := kube.For[corev1.Pod](f.client).In(f.namespace)
	if _, err := pods.Create(f.Context(), p); err != nil {
		f.Fatal(err)
	}
	for ev := range events {
		if ev.Type == "ERROR" {
			break
		}
	}
	for _, path := range []string{path, path + "/view-bad"} {
		if got := f.do("GET", path, ""); got.Code != http.StatusInternalServerError || !strings.Contains(got.Body, "panic") {
			f.Errorf("GET %s: %d %s", path, got.Code, got.Body)
		}
	}
	if err := pods.Delete(f.Context(), "bad"); err != nil {
		f.Fatal(err)
	}
	f.answers("views are listed", http.StatusOK, func() answer { return f.do("GET", path, "") })
}

// A subresource has one meaning.
func TestSubresourceTwice(t *testing.T) {
	cry := aggregate.Subresource[Sample]{Name: "cry", Serve: func(http.ResponseWriter, *http.Request, *Sample) error { return nil }}
	for name, s := range map[string][]aggregate.Subresource[Sample]{
		"declared twice": {cry, cry},
		"verb":           {{Name: "cry", Verb: "sing", Serve: cry.Serve}},
		"called":         {{Name: "a/b", Serve: cry.Serve}},
	} {
		server := aggregate.Server{Client: new(kube.Client), Kinds: []aggregate.Any{
			aggregate.Stored[Sample]{Definition: samples(t), Subresources: s},
		}}
		if _, err := server.Objects(manifest.Operator{Name: "test"}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
