package aggregate_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/pintle-go/pintle/crd"
)

// step is a request to both twins. {g} stands for the group, {p} for the path of llamas in
// the namespace, {a} for that of all namespaces.
type step struct {
	method, path, body string
	header             []string
	code               int // the status of both answers, for the reader of the table
}

const (
	jsonPatch  = "Content-Type: application/json-patch+json"
	mergePatch = "Content-Type: application/merge-patch+json"
	strategic  = "Content-Type: application/strategic-merge-patch+json"
	applyPatch = "Content-Type: application/apply-patch+yaml"
	table      = "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"
	partial    = "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

func llama(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"{g}/v1alpha1","kind":"Llama","metadata":{"name":%q,"labels":{"herd":"a"}},"spec":%s}`, name, spec)
}

var steps = []step{
	{"GET", "{p}", "", nil, 200},
	{"GET", "{p}/none", "", nil, 404},
	{"POST", "{p}", llama("anna", `{"weight":100,"height":170}`), nil, 201},
	{"POST", "{p}", llama("anna", `{"weight":100,"height":170}`), nil, 409},
	{"GET", "{p}/anna", "", nil, 200},
	{"GET", "{p}/anna", "", []string{"Accept: application/yaml"}, 200},
	{"GET", "{p}/anna", "", []string{"Accept: application/vnd.kubernetes.protobuf,application/json"}, 200},
	{"GET", "{p}/anna", "", []string{"Accept: application/vnd.kubernetes.protobuf"}, 406},
	{"GET", "{p}", "", []string{table}, 200},
	{"GET", "{p}?includeObject=Object", "", []string{table}, 200},
	{"GET", "{p}", "", []string{partial}, 200},
	{"GET", "{a}", "", nil, 200},

	// Mistakes in objects.
	{"POST", "{p}", llama("bad", `{"weight":0,"height":170}`), nil, 422},
	{"POST", "{p}", llama("bad", `{"weight":"x","height":170}`), nil, 422},
	{"POST", "{p}", llama("bad", `{"height":170}`), nil, 422},
	{"POST", "{p}", llama("bad", `{"weight":1,"height":400}`), nil, 422},
	{"POST", "{p}", llama("bad", `{"weight":1,"height":100,"color":"pink"}`), nil, 422},
	{"POST", "{p}", llama("bad", `{"weight":1,"height":100,"friends":["a","a"]}`), nil, 422},
	{"POST", "{p}", llama("BAD!", `{"weight":1,"height":100}`), nil, 422},
	{"POST", "{p}", `{"apiVersion":"{g}/v1alpha1","kind":"Sheep","metadata":{"name":"x"}}`, nil, 422},
	{"POST", "{p}", `{"apiVersion":"{g}/v2","kind":"Llama","metadata":{"name":"x"}}`, nil, 400},
	{"POST", "{p}", `{"kind":`, nil, 400},
	{"POST", "{p}", `[]`, nil, 400},
	{"POST", "{p}", llama("x", `{"weight":1,"height":2}`), []string{"Content-Type: text/plain"}, 415},
	{"POST", "{p}", llama("x", strings.Repeat(`{"a":`, 1000)+"1"+strings.Repeat("}", 1000)), nil, 422},
	{"POST", "{p}", llama("x", `{"weight":1,"height":1,"friends":["`+strings.Repeat("x", 3<<20)+`"]}`), nil, 413},
	{"POST", "{p}?fieldValidation=Strict", llama("typo", `{"weight":1,"height":100,"wight":2}`), nil, 400},
	{"POST", "{p}?fieldValidation=Warn", llama("typo", `{"weight":1,"height":100,"wight":2}`), nil, 201},
	{"POST", "{p}?dryRun=All", llama("dry", `{"weight":1,"height":100}`), nil, 201},
	{"GET", "{p}/dry", "", nil, 404},
	{"PUT", "{p}/anna", llama("bert", `{"weight":1,"height":100}`), nil, 400},
	{"PUT", "{p}/anna", llama("anna", `{"weight":1,"height":100}`), nil, 422},

	// Patches of each type.
	{"PATCH", "{p}/anna", `[{"op":"replace","path":"/spec/weight","value":120}]`, []string{jsonPatch}, 200},
	{"PATCH", "{p}/anna", `[{"op":"test","path":"/spec/weight","value":1}]`, []string{jsonPatch}, 422},
	{"PATCH", "{p}/anna", `[{"op":`, []string{jsonPatch}, 400},
	{"PATCH", "{p}/anna", `{"spec":{"color":"brown"},"status":{"mood":"lost"}}`, []string{mergePatch}, 200},
	{"PATCH", "{p}/anna", `{"spec":{"weight":0}}`, []string{mergePatch}, 422},
	{"PATCH", "{p}/anna", `{"metadata":{"resourceVersion":"1"}}`, []string{mergePatch}, 409},
	{"PATCH", "{p}/anna", `{"metadata":{"uid":"x"}}`, []string{mergePatch}, 422},
	{"PATCH", "{p}/anna", `{"metadata":{"name":"x"}}`, []string{mergePatch}, 400},
	{"PATCH", "{p}/anna", `{"spec":{"weight":1}}`, []string{strategic}, 415},

	// The status is written separately, and does not count as a generation.
	{"PATCH", "{p}/anna/status", `{"spec":{"weight":1},"status":{"mood":"good"}}`, []string{mergePatch}, 200},
	{"GET", "{p}/anna", "", nil, 200},
	{"GET", "{p}/anna/status", "", nil, 200},
	{"POST", "{p}/anna/status", "{}", nil, 405},
	{"GET", "{p}/anna/scale", "", nil, 200},
	{"PATCH", "{p}/anna/scale", `{"spec":{"replicas":7}}`, []string{mergePatch}, 200},
	{"GET", "{p}/anna/none", "", nil, 404},

	// Server-side apply.
	{"PATCH", "{p}/carl?fieldManager=one", llama("carl", `{"weight":90,"height":150}`), []string{applyPatch}, 201},
	{"PATCH", "{p}/carl?fieldManager=two", llama("carl", `{"weight":91,"height":150}`), []string{applyPatch}, 409},
	{"PATCH", "{p}/carl?fieldManager=two&force=true", llama("carl", `{"weight":91,"height":150}`), []string{applyPatch}, 200},
	{"PATCH", "{p}/carl?fieldManager=one", llama("carl", `{"height":150}`), []string{applyPatch}, 200},
	{"PATCH", "{p}/carl", llama("carl", `{"weight":91}`), []string{applyPatch}, 422},
	{"PATCH", "{p}/carl?fieldManager=one", llama("carl", `{"weight":91,"wight":1}`), []string{applyPatch}, 500},
	{"PATCH", "{p}/carl/status?fieldManager=st", llama("carl", `{"weight":1}`), []string{applyPatch}, 200},

	// Lists.
	{"GET", "{p}?limit=1", "", nil, 200},
	{"GET", "{p}?limit=1&continue=nonsense", "", nil, 400},
	{"GET", "{p}?limit=-1", "", nil, 200},
	{"GET", "{p}?labelSelector=herd%3Da", "", nil, 200},
	{"GET", "{p}?labelSelector=%21%21", "", nil, 400},
	{"GET", "{p}?fieldSelector=metadata.name%3Danna", "", nil, 200},
	{"GET", "{p}?fieldSelector=spec.height%3D150", "", nil, 200},
	{"GET", "{p}?fieldSelector=spec.weight%3D1", "", nil, 400},
	{"GET", "{p}?resourceVersion=x", "", nil, 400},
	{"GET", "{p}?resourceVersion=99999999999", "", nil, 504},
	{"GET", "{p}?watch=1&resourceVersion=x", "", nil, 500},
	{"GET", "{p}?watch=1&sendInitialEvents=true", "", nil, 422},
	{"GET", "{p}?watch=1&resourceVersion=0&timeoutSeconds=1", "", nil, 200},

	// Deletion.
	{"PATCH", "{p}/anna", `{"metadata":{"finalizers":["example.com/kept"]}}`, []string{mergePatch}, 200},
	{"DELETE", "{p}/anna", `{"preconditions":{"uid":"x"}}`, nil, 409},
	{"DELETE", "{p}/anna?propagationPolicy=Nonsense", "", nil, 422},
	{"DELETE", "{p}/anna?dryRun=All", "", nil, 200},
	{"DELETE", "{p}/anna", "", nil, 200},
	{"GET", "{p}/anna", "", nil, 200},
	{"PATCH", "{p}/anna", `{"metadata":{"finalizers":["example.com/kept","example.com/late"]}}`, []string{mergePatch}, 422},
	{"PATCH", "{p}/anna", `{"metadata":{"finalizers":null}}`, []string{mergePatch}, 200},
	{"GET", "{p}/anna", "", nil, 404},
	{"DELETE", "{p}/none", "", nil, 404},
	{"DELETE", "{p}?labelSelector=herd%3Da", "", nil, 200},
	{"GET", "{p}", "", nil, 200},

	// Rights, and missing objects.
	{"GET", "{p}", "", []string{"Impersonate-User: nobody"}, 403},
	{"POST", "{p}", llama("x", `{"weight":1,"height":1}`), []string{"Impersonate-User: nobody"}, 403},
	{"POST", "/apis/{g}/v1alpha1/llamas", llama("x", `{"weight":1,"height":1}`), nil, 404},
	{"POST", "/apis/{g}/v1alpha1/namespaces/nowhere/llamas", llama("x", `{"weight":1,"height":1}`), nil, 404},
	{"GET", "/apis/{g}/v1alpha1/sheep", "", nil, 404},
	{"GET", "/apis/{g}/v2/llamas", "", nil, 404},
	{"OPTIONS", "{p}", "", nil, 405},
}

// testTwin sends the same requests to an aggregated kind and to the same kind with a
// CustomResourceDefinition. Both give the same answers.
func testTwin(f *farm) {
	d := llamas(f)
	d.Name, d.Spec.Group = "llamas."+twin, twin
	if err := crd.Install(f.Context(), f.client, d); err != nil {
		f.Fatal(err)
	}
	for i, s := range steps {
		send := func(group string) answer {
			fill := strings.NewReplacer("{p}", f.path(group, ""), "{a}", "/apis/"+group+"/v1alpha1/llamas", "{g}", group)
			return f.do(s.method, fill.Replace(s.path), fill.Replace(s.body), s.header...)
		}
		got, want := send(group), send(twin)
		body := s.body
		if len(body) > 100 {
			body = body[:100]
		}
		name := fmt.Sprintf("step %d: %s %s %s %v", i, s.method, s.path, body, s.header)
		if want.Code != s.code {
			f.Errorf("%s: the twin with a definition answers %d, the table says %d: %s", name, want.Code, s.code, want.Body)
		}
		if got, want := normal(got, group), normal(want, twin); got != want {
			f.Errorf("%s:\nserver answers %s\ntwin answers   %s", name, got, want)
		}
	}
}

var (
	uid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	version = regexp.MustCompile(`("resourceVersion"|resourceVersion): ?"?\d+"?`)
	current = regexp.MustCompile(`current: \d+`)
	token   = regexp.MustCompile(`"continue":"[^"]+"`)
	age     = regexp.MustCompile(`"\d+(ms|s)"`)
	retry   = regexp.MustCompile(`"storageVersionHash":"[^"]*"`)
)

// normal returns an answer without the parts that differ each time.
func normal(a answer, group string) string {
	text := a.Body
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		text = compact(v)
	}
	text = strings.ReplaceAll(text, group, "GROUP")
	text = uid.ReplaceAllString(text, "UID")
	text = instant.ReplaceAllString(text, "TIME")
	text = version.ReplaceAllString(text, "VERSION")
	text = current.ReplaceAllString(text, "current: N")
	text = token.ReplaceAllString(text, "TOKEN")
	text = age.ReplaceAllString(text, "AGE")
	text = retry.ReplaceAllString(text, "HASH")
	return fmt.Sprintf("%d %s %v", a.Code, text, a.Warning)
}

func compact(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
