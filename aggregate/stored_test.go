package aggregate_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// testClient uses the kind as a program does: with typed handles, a store and a watch.
func testClient(f *bench) {
	samples := kube.For[Sample](f.client).In(f.namespace)
	l := new(Sample)
	l.Name, l.Spec.Weight, l.Spec.Height = "dora", 100, 170
	l, err := samples.Create(f.Context(), l)
	if err != nil {
		f.Fatal(err)
	}
	if l.Spec.Color != "white" || l.Generation != 1 || l.UID == "" {
		f.Errorf("created %s", indent(l))
	}
	l.Status.Mood, l.Spec.Weight = "good", 1
	if err = samples.Status().Update(f.Context(), l); err == nil {
		l, err = samples.Get(f.Context(), l.Name)
	}
	if err != nil {
		f.Fatal(err)
	}
	if l.Status.Mood != "good" || l.Spec.Weight != 100 || l.Generation != 1 {
		f.Errorf("after the status was written: %s", indent(l))
	}
	ctx, stop := context.WithTimeout(f.Context(), 30*time.Second)
	defer stop()
	for ev, err := range samples.Watch(ctx) {
		if err != nil {
			f.Fatal(err)
		}
		if ev.Object != nil && ev.Object.Name == "dora" {
			break
		}
	}
	changed, err := samples.Modify(ctx, "dora", func(l *Sample) error { l.Spec.Weight = 110; return nil })
	if err != nil {
		f.Fatal(err)
	}
	if changed.Generation != 2 {
		f.Errorf("generation %d after a change, want 2", changed.Generation)
	}
	applied := new(Sample)
	applied.Name, applied.Spec.Weight, applied.Spec.Height = "emil", 50, 100
	if _, err := samples.Apply(ctx, applied); err != nil {
		f.Fatal(err)
	}
	if err := samples.DeleteAll(ctx); err != nil {
		f.Fatal(err)
	}
	if err := samples.UntilGone(ctx, "emil"); err != nil {
		f.Fatal(err)
	}
}

// testFunctions calls the program's own functions.
func testFunctions(f *bench) {
	samples := kube.For[Sample](f.client).In(f.namespace)
	ghost := new(Sample)
	ghost.Name, ghost.Spec.Weight, ghost.Spec.Height = "ghost", 1, 1
	_, err := samples.Create(f.Context(), ghost)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(),
		`Sample.self.example.com "ghost" is invalid: metadata.name: Invalid value: "ghost": there are no ghosts`) {
		f.Errorf("create a ghost: %v", err)
	}
	tall := `{"apiVersion":"self.example.com/v1alpha1","kind":"Sample","metadata":{"name":"tall","annotations":{"tall":"yes"}},"spec":{"weight":9}}`
	if got := f.do("POST", f.path(group, ""), tall); got.Code != 201 || !strings.Contains(got.Body, `"height":180`) || strings.Contains(got.Body, `"status"`) {
		f.Errorf("create with a default of the program: %d %s", got.Code, got.Body)
	}
	for _, s := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/tall/cry", "", 200, "tall cries"},
		{"GET", "/tall/cry", "", 405, "MethodNotAllowed"},
		{"POST", "/none/cry", "", 404, `samples.self.example.com \"none\" not found`},
	} {
		if got := f.do(s.method, f.path(group, s.path), s.body); got.Code != s.code || !strings.Contains(got.Body, s.want) {
			f.Errorf("%s %s: %d %s", s.method, s.path, got.Code, got.Body)
		}
	}
	// The program does not know how to act without an effect.
	if got := f.do("POST", f.path(group, "/tall/cry?dryRun=All"), ""); got.Code != 400 || !strings.Contains(got.Body, `"reason":"BadRequest"`) {
		f.Errorf("a dry run of a subresource: %d %s", got.Code, got.Body)
	}
	if got := f.do("POST", f.path(group, "/tall/count"), "12345"); got.Code != 200 || got.Body != "5" {
		f.Errorf("a subresource with a body: %d %s", got.Code, got.Body)
	}
	if got := f.do("POST", f.path(group, "/tall/count"), strings.Repeat("x", 4<<20)); got.Code != 413 || !strings.Contains(got.Body, `"kind":"Status"`) {
		f.Errorf("a subresource with a large body: %d %s", got.Code, got.Body)
	}
	if got := f.do("POST", f.path(group, "/tall/cry"), "", "Impersonate-User: nobody"); got.Code != 403 {
		f.Errorf("a subresource without the right: %d %s", got.Code, got.Body)
	}
}

// testStream reads lines of a subresource while the program still writes it.
func testStream(f *bench) {
	_, err := f.create(f.namespace, "anna")
	f.ok(err)
	ctx, stop := context.WithTimeout(f.Context(), 30*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.cluster.Config().Host+f.path(group, "/anna/log"), http.NoBody)
	f.ok(err)
	resp, err := f.http.Do(req)
	f.ok(err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for i := range 2 {
		if want := fmt.Sprintf("line %d of anna", i); !lines.Scan() || lines.Text() != want {
			f.Fatalf("line %q, want %q: %v", lines.Text(), want, lines.Err())
		}
	}
	for path, want := range map[string]int{"/none/log": http.StatusNotFound, "/anna/none": http.StatusNotFound} {
		if got := f.do("GET", f.path(group, path), ""); got.Code != want {
			f.Errorf("GET %s: %d %s", path, got.Code, got.Body)
		}
	}
	if got := f.do("GET", f.path(group, "/anna/log"), "", "Impersonate-User: nobody"); got.Code != http.StatusForbidden {
		f.Errorf("a log without the right: %d %s", got.Code, got.Body)
	}
}

// TestRestart stops a server and starts another with the same directory. The objects are
// there, and versions go on.
func TestRestart(t *testing.T) {
	dir, err := os.MkdirTemp("", "view-") //nolint:usetesting // the path of a socket in it must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	server := plain(t)
	server.Kinds = server.Kinds[:1]
	server.Storage = aggregate.Storage{Dir: dir}
	f := serve(t, server)
	samples := kube.For[Sample](f.client).In(f.namespace)
	l := new(Sample)
	l.Name, l.Spec.Weight, l.Spec.Height = "gina", 100, 170
	l, err = samples.Create(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	f.stop()
	services := kube.For[apiService](f.client)
	if _, err := services.Get(t.Context(), "v1alpha1."+group); !apierrors.IsNotFound(err) {
		t.Errorf("the APIService stays: %v", err)
	}
	f.start(server)
	again, err := samples.Get(t.Context(), "gina")
	if err != nil {
		t.Fatal(err)
	}
	if again.UID != l.UID || again.ResourceVersion != l.ResourceVersion {
		t.Errorf("after the restart %s, before %s", indent(again), indent(l))
	}
	changed, err := samples.Modify(t.Context(), "gina", func(l *Sample) error { l.Spec.Weight++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	was, _ := strconv.ParseInt(l.ResourceVersion, 10, 64)
	if now, err := strconv.ParseInt(changed.ResourceVersion, 10, 64); err != nil || now <= was {
		t.Errorf("version %s after %s", changed.ResourceVersion, l.ResourceVersion)
	}
	if code := f.do("GET", f.path(group, ""), "").Code; code != http.StatusOK {
		t.Errorf("list: %d", code)
	}
}

// testCharges creates objects that the program refuses. The quota does not count them.
func testCharges(f *bench) {
	quotas := kube.For[corev1.ResourceQuota](f.client).In(f.namespace)
	of := corev1.ResourceList{"count/samples." + group: resource.MustParse("9")}
	q := new(corev1.ResourceQuota)
	q.Name, q.Spec.Hard = "nine", of
	_, err := quotas.Create(f.Context(), q)
	f.ok(err)
	used := func() int64 {
		q, err := quotas.Get(f.Context(), "nine")
		f.ok(err)
		n := q.Status.Used["count/samples."+group]
		return n.Value()
	}
	// As the quota's controller does when it knows the kind.
	kubetest.Eventually(f, "the quota has a status", func() error {
		q, err := quotas.Get(f.Context(), "nine")
		f.ok(err)
		q.Status.Hard, q.Status.Used = of, corev1.ResourceList{"count/samples." + group: resource.MustParse("0")}
		return quotas.Status().Update(f.Context(), q)
	})
	n := int64(0)
	kubetest.Eventually(f, "samples are counted", func() error {
		n++
		_, err := f.create(f.namespace, fmt.Sprint("counted-", n))
		f.ok(err)
		if used() == 0 {
			return fmt.Errorf("none of %d is", n)
		}
		return nil
	})
	for range 3 {
		if _, err := f.create(f.namespace, "ghost"); !apierrors.IsInvalid(err) {
			f.Errorf("create a ghost: %v", err)
		}
	}
	if after := used(); after > n {
		f.Errorf("%d samples were made, and %d are counted after others were refused", n, after)
	}
}

// Before is an older form of Sample: its age is a text.
type Before struct {
	kube.Object
	Spec struct {
		Weight int32  `json:"weight"`
		Height int32  `json:"height"`
		Age    string `json:"age"`
	} `json:"spec"`
}

// GVK names the kind, which is that of Sample.
func (Before) GVK() kube.GVK { return Sample{}.GVK() }

// TestTypeChanged replaces a server by one whose type cannot hold the objects that are stored.
// They can be read, their metadata can be changed and they can be deleted, as those of a
// CustomResourceDefinition that changed.
func TestTypeChanged(t *testing.T) {
	was := crd.Of[Before](crd.Options{})
	if err := was.Err(); err != nil {
		t.Fatal(err)
	}
	server := plain(t)
	server.Storage = aggregate.Storage{Dir: shortDir(t)}
	is := server.Kinds[:1]
	server.Kinds = []aggregate.Any{aggregate.Stored[Before]{Definition: was}}
	f := prepare(t, kubetest.Start(t, kubetest.Options{Nodes: 1}))
	const twin = "changed.example.com"
	latter := samples(t)
	latter.Name, latter.Spec.Group = "samples."+twin, twin
	was = crd.Of[Before](crd.Options{})
	f.ok(was.Err())
	was.Name, was.Spec.Group = latter.Name, twin
	f.ok(crd.Replace(t.Context(), f.client, was)) // another run may have left the definition
	f.start(server)
	old := `{"apiVersion":"{g}/v1alpha1","kind":"Sample","metadata":{"name":"old","finalizers":["example.com/kept"]},"spec":{"weight":100,"height":100,"age":"old"}}`
	for _, g := range []string{group, twin} {
		f.answers(g+" is served", http.StatusOK, func() answer { return f.do("GET", f.path(g, ""), "") })
		if got := f.do("POST", f.path(g, ""), strings.ReplaceAll(old, "{g}", g)); got.Code != http.StatusCreated {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
	}
	f.stop()
	server.Kinds = is
	f.start(server)
	f.ok(crd.Replace(t.Context(), f.client, latter))
	kubetest.Eventually(f, "the twin has the other definition", func() error {
		a := f.do("POST", f.path(twin, "?dryRun=All"), strings.ReplaceAll(sample("x", `{"weight":1,"height":1,"age":"x"}`), "{g}", twin))
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body, "integer") {
			return fmt.Errorf("status %d: %.300s", a.Code, a.Body)
		}
		return nil
	})
	for _, s := range []step{
		{"GET", "{p}/old", "", nil, 200},
		{"PATCH", "{p}/old", `{"metadata":{"labels":{"seen":"yes"}}}`, []string{mergePatch}, 200},
		{"PATCH", "{p}/old", `{"spec":{"age":"young"}}`, []string{mergePatch}, 422},
		{"PATCH", "{p}/old?dryRun=All", `{"spec":{"age":7}}`, []string{mergePatch}, 200},
		{"DELETE", "{p}/old", "", nil, 200},
		{"PATCH", "{p}/old", `{"metadata":{"finalizers":null}}`, []string{mergePatch}, 200},
		{"GET", "{p}/old", "", nil, 404},
	} {
		send := func(g string) answer {
			return f.do(s.method, strings.ReplaceAll(s.path, "{p}", f.path(g, "")), s.body, s.header...)
		}
		// The program's own Validate cannot look at the object, so only its metadata can change.
		if got := f.do("PATCH", f.path(group, "/old?dryRun=All"), `{"spec":{"color":"brown"}}`, mergePatch); s.code == 422 && got.Code != s.code {
			t.Errorf("another field changes: %d %s", got.Code, got.Body)
		}
		got, want := send(group), send(twin)
		if got.Code != want.Code || want.Code != s.code {
			t.Errorf("%s %s: %d %s, the twin %d %s, the table %d", s.method, s.body, got.Code, got.Body, want.Code, want.Body, s.code)
		}
	}
}
