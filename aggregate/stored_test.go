package aggregate_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/kube"
)

// testClient uses the kind as a program does: with typed handles, a store and a watch.
func testClient(f *farm) {
	llamas := kube.For[Llama](f.client).In(f.namespace)
	l := new(Llama)
	l.Name, l.Spec.Weight, l.Spec.Height = "dora", 100, 170
	l, err := llamas.Create(f.Context(), l)
	if err != nil {
		f.Fatal(err)
	}
	if l.Spec.Color != "white" || l.Generation != 1 || l.UID == "" {
		f.Errorf("created %s", indent(l))
	}
	l.Status.Mood, l.Spec.Weight = "good", 1
	if l, err = llamas.UpdateStatus(f.Context(), l); err != nil {
		f.Fatal(err)
	}
	if l.Status.Mood != "good" || l.Spec.Weight != 100 || l.Generation != 1 {
		f.Errorf("after the status was written: %s", indent(l))
	}
	ctx, stop := context.WithTimeout(f.Context(), 30*time.Second)
	defer stop()
	for ev, err := range llamas.Watch(ctx) {
		if err != nil {
			f.Fatal(err)
		}
		if ev.Object != nil && ev.Object.Name == "dora" {
			break
		}
	}
	changed, err := llamas.Modify(ctx, "dora", func(l *Llama) error { l.Spec.Weight = 110; return nil })
	if err != nil {
		f.Fatal(err)
	}
	if changed.Generation != 2 {
		f.Errorf("generation %d after a change, want 2", changed.Generation)
	}
	applied := new(Llama)
	applied.Name, applied.Spec.Weight, applied.Spec.Height = "emil", 50, 100
	if _, err := llamas.Apply(ctx, applied); err != nil {
		f.Fatal(err)
	}
	if err := llamas.DeleteAll(ctx); err != nil {
		f.Fatal(err)
	}
	if err := llamas.UntilGone(ctx, "emil"); err != nil {
		f.Fatal(err)
	}
}

// testFunctions calls the program's own functions.
func testFunctions(f *farm) {
	llamas := kube.For[Llama](f.client).In(f.namespace)
	ghost := new(Llama)
	ghost.Name, ghost.Spec.Weight, ghost.Spec.Height = "ghost", 1, 1
	_, err := llamas.Create(f.Context(), ghost)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(),
		`Llama.farm.example.com "ghost" is invalid: metadata.name: Invalid value: "ghost": there are no ghosts`) {
		f.Errorf("create a ghost: %v", err)
	}
	tall := `{"apiVersion":"farm.example.com/v1alpha1","kind":"Llama","metadata":{"name":"tall","annotations":{"tall":"yes"}},"spec":{"weight":9}}`
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
		{"POST", "/none/cry", "", 404, `llamas.farm.example.com \"none\" not found`},
	} {
		if got := f.do(s.method, f.path(group, s.path), s.body); got.Code != s.code || !strings.Contains(got.Body, s.want) {
			f.Errorf("%s %s: %d %s", s.method, s.path, got.Code, got.Body)
		}
	}
	if got := f.do("POST", f.path(group, "/tall/cry"), "", "Impersonate-User: nobody"); got.Code != 403 {
		f.Errorf("a subresource without the right: %d %s", got.Code, got.Body)
	}
}

// kubectl runs kubectl of the local cluster.
func (f *farm) kubectl(input string, args ...string) (output string, err error) {
	f.Helper()
	cmd := exec.CommandContext(f.Context(), launcher, append([]string{
		"--dir", filepath.Dir(f.cluster.Kubeconfig()), "kubectl", "--cache-dir=" + f.cache, "-n", f.namespace}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// testKubectl makes kubectl ask for discovery and for schemas, besides objects.
func testKubectl(f *farm) {
	// kube-apiserver fetches schemas a moment after the registration.
	for began := time.Now(); f.do("GET", "/openapi/v3/apis/"+group+"/v1alpha1", "").Code != http.StatusOK; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			f.Fatal("kube-apiserver has no schema of the kinds")
		}
	}
	manifest := `{"apiVersion":"farm.example.com/v1alpha1","kind":"Llama","metadata":{"name":"fred"},"spec":{"weight":80,"height":160}}`
	for _, s := range []struct {
		args  string
		input string
		want  []string
	}{
		{"api-resources --api-group=farm.example.com -o wide", "", []string{
			"llamas", "ll ", "true ", "Llama", "create,delete,deletecollection,get,list,patch,update,watch", "farm",
			"farmpods", "FarmPod", "get,list,watch"}},
		{"explain llamas.spec.weight", "", []string{"GROUP:      farm.example.com", "FIELD: weight <integer>"}},
		{"explain llamas --recursive", "", []string{"spec	<Object> -required-", "friends	<[]string>", "mood	<string>"}},
		{"explain farmpods.spec", "", []string{"containers	<integer> -required-"}},
		{"apply --server-side -f -", manifest, []string{"llama.farm.example.com/fred serverside-applied"}},
		{"apply -f -", manifest, []string{"llama.farm.example.com/fred configured"}},
		{"get ll", "", []string{"NAME", "WEIGHT", "HEIGHT", "MOOD", "AGE", "fred", "80", "160"}},
		{"get ll -o wide", "", []string{"COLOR", "white"}},
		{"get farm -A", "", []string{"llama.farm.example.com/fred"}},
		{"label llama fred happy=yes", "", []string{"llama.farm.example.com/fred labeled"}},
		{"wait llama/fred --for=jsonpath={.spec.weight}=80 --timeout=5s", "", []string{"condition met"}},
		{"describe llama fred", "", []string{"Weight:  80"}},
		{"delete llama fred", "", []string{`llama.farm.example.com "fred" deleted`}},
	} {
		out, err := f.kubectl(s.input, strings.Fields(s.args)...)
		if err != nil {
			f.Errorf("kubectl %s: %v\n%s", s.args, err, out)
		}
		for _, want := range s.want {
			if !strings.Contains(out, want) {
				f.Errorf("kubectl %s: no %q in\n%s", s.args, want, out)
			}
		}
	}
	wrong := strings.Replace(manifest, "height", "hight", 1)
	if out, err := f.kubectl(wrong, "apply", "-f", "-"); err == nil || !strings.Contains(out, `unknown field "spec.hight"`) {
		f.Errorf("kubectl apply with a wrong field: %v\n%s", err, out)
	}
}

// launcher is the cluster's command, which has kubectl.
var launcher string

// TestRestart stops a server and starts another with the same directory. The objects are
// there, and versions go on.
func TestRestart(t *testing.T) {
	dir, err := os.MkdirTemp("", "farm-") //nolint:usetesting // the path of a socket in it must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	server := plain(t)
	server.Kinds = server.Kinds[:1]
	server.Storage = aggregate.Storage{Dir: dir}
	f := serve(t, server)
	llamas := kube.For[Llama](f.client).In(f.namespace)
	l := new(Llama)
	l.Name, l.Spec.Weight, l.Spec.Height = "gina", 100, 170
	l, err = llamas.Create(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	f.stop()
	services := kube.For[aggregate.APIService](f.client)
	if _, err := services.Get(t.Context(), "v1alpha1."+group); !apierrors.IsNotFound(err) {
		t.Errorf("the APIService stays: %v", err)
	}
	f.start(server)
	again, err := llamas.Get(t.Context(), "gina")
	if err != nil {
		t.Fatal(err)
	}
	if again.UID != l.UID || again.ResourceVersion != l.ResourceVersion {
		t.Errorf("after the restart %s, before %s", indent(again), indent(l))
	}
	changed, err := llamas.Modify(t.Context(), "gina", func(l *Llama) error { l.Spec.Weight++; return nil })
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
