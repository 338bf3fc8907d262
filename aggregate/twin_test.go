package aggregate_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/pintle-go/pintle/crd"
)

// step is a request to both twins. {g} stands for the group, {p} for the path of samples in
// the namespace, {o} for that of the older version, {a} for that of all namespaces.
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

func sample(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"{g}/v1alpha1","kind":"Sample","metadata":{"name":%q,"labels":{"herd":"a"}},"spec":%s}`, name, spec)
}

// owned returns an object to apply with fields in its metadata.
func owned(fields string) string {
	return strings.Replace(sample("anna", `{"weight":100,"height":170}`), `"labels"`, fields+`,"labels"`, 1)
}

// keys returns fields of different names.
func keys(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, `"k%d":1,`, i)
	}
	return all.String()
}

var steps = []step{
	{"GET", "{p}", "", nil, 200},
	{"GET", "{p}/none", "", nil, 404},
	{"POST", "{p}", sample("anna", `{"weight":100,"height":170}`), nil, 201},
	{"POST", "{p}", sample("anna", `{"weight":100,"height":170}`), nil, 409},
	{"GET", "{p}/anna", "", nil, 200},
	{"GET", "{p}/anna", "", []string{"Accept: application/yaml"}, 200},
	{"GET", "{p}/anna", "", []string{"Accept: application/vnd.kubernetes.protobuf,application/json"}, 200},
	{"GET", "{p}/anna", "", []string{"Accept: application/vnd.kubernetes.protobuf"}, 406},
	{"GET", "{p}", "", []string{table}, 200},
	{"GET", "{p}?includeObject=Object", "", []string{table}, 200},
	{"GET", "{p}", "", []string{partial}, 200},
	{"GET", "{a}?fieldSelector=metadata.namespace%3D{n}", "", nil, 200}, // other tests have samples too

	// Mistakes in objects.
	{"POST", "{p}", sample("bad", `{"weight":0,"height":170}`), nil, 422},
	{"POST", "{p}", sample("bad", `{"weight":"x","height":170}`), nil, 422},
	{"POST", "{p}", sample("bad", `{"height":170}`), nil, 422},
	{"POST", "{p}", sample("bad", `{"weight":1,"height":400}`), nil, 422},
	{"POST", "{p}", sample("bad", `{"weight":1,"height":100,"color":"pink"}`), nil, 422},
	{"POST", "{p}", sample("bad", `{"weight":1,"height":100,"friends":["a","a"]}`), nil, 422},
	{"POST", "{p}", sample("BAD!", `{"weight":1,"height":100}`), nil, 422},
	{"POST", "{p}", `{"apiVersion":"{g}/v1alpha1","kind":"Sheep","metadata":{"name":"x"}}`, nil, 422},
	{"POST", "{p}", `{"apiVersion":"{g}/v2","kind":"Sample","metadata":{"name":"x"}}`, nil, 400},
	{"POST", "{p}", `{"kind":`, nil, 400},
	{"POST", "{p}", `[]`, nil, 400},
	{"POST", "{p}", sample("x", `{"weight":1,"height":2}`), []string{"Content-Type: text/plain"}, 415},
	{"POST", "{p}", sample("x", strings.Repeat(`{"a":`, 1000)+"1"+strings.Repeat("}", 1000)), nil, 422},
	{"POST", "{p}", sample("x", `{"weight":1,"height":1,"friends":["`+strings.Repeat("x", 3<<20)+`"]}`), nil, 413},
	{"POST", "{p}", sample("x", "{"+strings.Repeat(`"a":1,`, 400_000)+`"weight":1,"height":1}`), nil, 201},
	{"DELETE", "{p}/x", "", nil, 200},
	{"POST", "{p}", sample("x", "{"+keys(1_000_000)+`"weight":1,"height":1}`), nil, 413},
	{"POST", "{p}", sample("x", "{"+keys(100_000)+`"weight":1,"height":1}`), nil, 201},
	{"GET", "{p}/x", "", nil, 200},
	{"DELETE", "{p}/x", "", nil, 200},
	{"POST", "{p}", sample(strings.Repeat("a", 254), `{"weight":1,"height":1}`), nil, 422},
	{"POST", "{p}", sample("a/b", `{"weight":1,"height":1}`), nil, 422},
	{"POST", "{p}", strings.Replace(sample("x", `{"weight":1,"height":1}`), `"herd":"a"`, `"herd":"a b"`, 1), nil, 422},
	{"POST", "{p}", strings.Replace(sample("x", `{"weight":1,"height":1}`), `"herd":"a"`, `"herd":7`, 1), nil, 400},
	{"GET", "{p}/UPPER", "", nil, 404},
	{"GET", "{p}/%00", "", nil, 404},
	{"PATCH", "{p}/anna", strings.Repeat(`{"spec":`, 1000) + "1" + strings.Repeat("}", 1000), []string{mergePatch}, 200},
	{"PATCH", "{p}/anna", `[` + strings.Repeat(`{"op":"test","path":"/spec/weight","value":100},`, 10_001) + `{}]`, []string{jsonPatch}, 413},
	{"PATCH", "{p}/anna", `{"apiVersion":"{g}/v2","kind":"Sheep"}`, []string{mergePatch}, 422},
	{"PATCH", "{p}/anna?fieldManager=one", sample("bert", `{"weight":1,"height":1}`), []string{applyPatch}, 409},
	{"PATCH", "{p}/anna?fieldManager=one", `{`, []string{applyPatch}, 400},
	{"PATCH", "{p}/anna?fieldManager=one", `{"kind":"Sample"}`, []string{applyPatch}, 400},
	{"PATCH", "{p}/anna", `{"spec":`, []string{mergePatch}, 400},
	{"PATCH", "{p}/anna", `[]`, []string{mergePatch}, 400},
	{"PATCH", "{p}/anna", `{}`, []string{jsonPatch}, 400},
	{"PATCH", "{p}/anna", `[{"op":"fly","path":"/spec/weight"}]`, []string{jsonPatch}, 422},
	{"PATCH", "{p}/anna", `[{"op":"replace","path":"/metadata/name","value":"bert"}]`, []string{jsonPatch}, 400},
	{"PATCH", "{p}/anna", `[{"op":"replace","path":"","value":null}]`, []string{jsonPatch}, 422},
	{"PATCH", "{p}/anna?fieldManager=one", owned(`"uid":"x"`), []string{applyPatch}, 422},
	{"PATCH", "{p}/anna?fieldManager=one", owned(`"resourceVersion":"1"`), []string{applyPatch}, 409},
	{"PATCH", "{p}/anna?fieldManager=one", owned(`"managedFields":[]`), []string{applyPatch}, 400},
	{"PATCH", "{p}/anna?fieldManager=one", owned(`"namespace":"default"`), []string{applyPatch}, 400},
	{"PATCH", "{p}/anna?fieldManager=one", owned(`"creationTimestamp":"2001-01-01T00:00:00Z","generation":9`), []string{applyPatch}, 200},
	{"PATCH", "{p}/anna", `{"metadata":{"creationTimestamp":null,"finalizers":["not a name"]}}`, []string{mergePatch}, 422},
	{"GET", "{p}?watch=1&resourceVersion=99999999999&timeoutSeconds=2", "", nil, 200},
	{"POST", "{p}?fieldValidation=Strict", sample("typo", `{"weight":1,"height":100,"wight":2}`), nil, 400},
	{"POST", "{p}?fieldValidation=Warn", sample("typo", `{"weight":1,"height":100,"wight":2}`), nil, 201},
	{"POST", "{p}?dryRun=All", sample("dry", `{"weight":1,"height":100}`), nil, 201},
	{"GET", "{p}/dry", "", nil, 404},
	{"PUT", "{p}/anna", sample("bert", `{"weight":1,"height":100}`), nil, 400},
	{"PUT", "{p}/anna", sample("anna", `{"weight":1,"height":100}`), nil, 422},

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

	// Names that the server makes, and fields that the server owns.
	{"POST", "{p}", strings.Replace(sample("", `{"weight":1,"height":100}`), `"name":""`, `"generateName":"made-"`, 1), nil, 201},
	{"POST", "{p}", strings.Replace(sample("", `{"weight":1,"height":100}`), `"name":"",`, "", 1), nil, 422},
	{"DELETE", "{p}?labelSelector=herd%3Da&fieldSelector=spec.height%3D100", "", nil, 200},
	{"PUT", "{p}/anna", strings.Replace(sample("anna", `{"weight":1,"height":100}`), `"labels"`, `"resourceVersion":"1","labels"`, 1), nil, 409},
	{"PUT", "{p}/anna", strings.Replace(sample("anna", `{"weight":1,"height":100}`), `"labels"`, `"resourceVersion":"x","labels"`, 1), nil, 500},
	{"PATCH", "{p}/anna", `{"metadata":{"generation":99,"creationTimestamp":"2001-01-01T00:00:00Z","selfLink":"/x"}}`, []string{mergePatch}, 200},
	{"PATCH", "{p}/anna", `{"metadata":{"deletionTimestamp":"2001-01-01T00:00:00Z","deletionGracePeriodSeconds":5}}`, []string{mergePatch}, 422},
	{"PATCH", "{p}/anna", `{"metadata":{"namespace":"default"}}`, []string{mergePatch}, 400},
	{"PATCH", "{p}/anna", `{"metadata":{"managedFields":[]}}`, []string{mergePatch}, 200},
	{"PATCH", "{p}/anna", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x"}]}}`, []string{mergePatch}, 422},
	{"PATCH", "{p}/anna", `[{"op":"replace","path":"/metadata/uid","value":"x"}]`, []string{jsonPatch}, 422},
	{"PATCH", "{p}/anna", `[{"op":"remove","path":"/apiVersion"}]`, []string{jsonPatch}, 500},
	{"GET", "{p}/anna", "", nil, 200},

	// Bodies in YAML.
	{"POST", "{p}", "apiVersion: {g}/v1alpha1\nkind: Sample\nmetadata: {name: yaml}\nspec: {weight: 1, height: 100}\n", []string{"Content-Type: application/yaml"}, 201},
	{"POST", "{p}", "a: [", []string{"Content-Type: application/yaml"}, 400},
	{"DELETE", "{p}/yaml", "", nil, 200},

	// Server-side apply.
	{"PATCH", "{p}/carl?fieldManager=one", sample("carl", `{"weight":90,"height":150}`), []string{applyPatch}, 201},
	{"PATCH", "{p}/carl?fieldManager=two", sample("carl", `{"weight":91,"height":150}`), []string{applyPatch}, 409},
	{"PATCH", "{p}/carl?fieldManager=two&force=true", sample("carl", `{"weight":91,"height":150}`), []string{applyPatch}, 200},
	{"PATCH", "{p}/carl?fieldManager=one", sample("carl", `{"height":150}`), []string{applyPatch}, 200},
	{"PATCH", "{p}/carl", sample("carl", `{"weight":91}`), []string{applyPatch}, 422},
	{"PATCH", "{p}/carl?fieldManager=one", sample("carl", `{"weight":91,"wight":1}`), []string{applyPatch}, 500},
	{"PATCH", "{p}/carl/status?fieldManager=st", sample("carl", `{"weight":1}`), []string{applyPatch}, 200},

	// Lists.
	{"GET", "{p}?limit=1", "", nil, 200},
	{"GET", "{p}?limit=1&continue=nonsense", "", nil, 400},
	{"GET", "{p}?limit=-1", "", nil, 200},
	{"GET", "{p}?labelSelector=herd%3Da", "", nil, 200},
	{"GET", "{p}?labelSelector=%21%21", "", nil, 400},
	{"GET", "{p}?labelSelector=herd%20in%20%28a", "", nil, 400},
	{"GET", "{p}?labelSelector=herd%3D%24", "", nil, 400},
	{"GET", "{p}?fieldSelector=metadata.name", "", nil, 400},
	{"GET", "{p}?fieldSelector=metadata.name%3D%21%21", "", nil, 200},
	{"DELETE", "{p}?labelSelector=%21%21", "", nil, 400},
	{"GET", "{p}?watch=1&labelSelector=%21%21", "", nil, 400},
	{"GET", "{p}?timeoutSeconds=x", "", nil, 400},
	{"GET", "{p}?fieldSelector=metadata.name%3Danna", "", nil, 200},
	{"GET", "{p}?fieldSelector=spec.height%3D150", "", nil, 200},
	{"GET", "{p}?fieldSelector=spec.weight%3D1", "", nil, 400},
	{"GET", "{p}?resourceVersion=x", "", nil, 400},
	{"GET", "{p}?resourceVersion=99999999999", "", nil, 504},
	{"GET", "{p}?watch=1&resourceVersion=x", "", nil, 500},
	{"GET", "{p}?watch=1&sendInitialEvents=true", "", nil, 422},
	{"GET", "{p}?watch=1&resourceVersion=0&timeoutSeconds=2", "", nil, 200},

	// Parameters that are unusual, wrong or contradict each other.
	{"HEAD", "{p}/carl", "", nil, 200},
	{"HEAD", "{p}/none", "", nil, 404},
	{"GET", "{p}/carl?watch=1&timeoutSeconds=2&resourceVersion=0", "", nil, 200},
	{"GET", "{p}/carl?resourceVersion=0", "", nil, 200},
	{"GET", "{p}/carl?resourceVersion=x", "", nil, 500},
	{"GET", "{p}/carl?resourceVersion=99999999999", "", nil, 504},
	{"GET", "{p}/carl?pretty=1&export=1", "", nil, 400},
	{"GET", "{p}/carl/", "", nil, 200},
	{"GET", "{p}//carl", "", nil, 404},
	{"GET", "{p}?resourceVersionMatch=Exact", "", nil, 422},
	{"GET", "{p}?resourceVersionMatch=Nonsense&resourceVersion=1", "", nil, 422},
	{"GET", "{p}?resourceVersionMatch=Exact&resourceVersion=0", "", nil, 422},
	{"GET", "{p}?resourceVersionMatch=NotOlderThan&resourceVersion=1", "", nil, 200},
	{"GET", "{p}?resourceVersion=-1", "", nil, 400},
	{"GET", "{p}?continue=a&resourceVersion=1", "", nil, 400},
	{"GET", "{p}?watch=1&continue=a", "", nil, 422},
	{"GET", "{p}?watch=1&timeoutSeconds=2&limit=1&resourceVersion=0", "", nil, 200},
	{"GET", "{p}?watch=1&resourceVersion=-1&timeoutSeconds=1", "", nil, 500},
	{"GET", "{p}?watch=1&resourceVersion=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=2", "", nil, 200},
	{"GET", "{p}?watch=1&resourceVersionMatch=Exact&resourceVersion=1", "", nil, 422},
	{"GET", "{p}?watch=nonsense&timeoutSeconds=2", "", nil, 200},
	{"GET", "{p}?sendInitialEvents=true", "", nil, 422},
	{"GET", "{p}", "", []string{"Accept: application/json;as=Table;g=meta.k8s.io;v=v7"}, 406},
	{"GET", "{p}", "", []string{"Accept: text/html"}, 406},
	{"GET", "{p}?includeObject=Nonsense", "", []string{table}, 400},
	{"GET", "{p}/carl", "", []string{table}, 200},
	{"GET", "{p}/carl?fieldManager=" + strings.Repeat("x", 200), "", nil, 200},
	{"POST", "{p}?fieldManager=" + strings.Repeat("x", 200), sample("m", `{"weight":1,"height":100}`), nil, 422},
	{"POST", "{p}?fieldValidation=Nonsense", sample("m", `{"weight":1,"height":100}`), nil, 422},
	{"POST", "{p}?dryRun=Nonsense", sample("m", `{"weight":1,"height":100}`), nil, 422},
	{"POST", "{p}?dryRun=All&dryRun=All", sample("m", `{"weight":1,"height":100}`), nil, 201},
	{"POST", "{p}/carl", sample("carl", `{"weight":1,"height":100}`), nil, 409},
	{"POST", "{p}", "", nil, 400},
	{"POST", "{p}", "null", nil, 400},
	{"POST", "{p}", sample("m", `null`), nil, 422},
	{"POST", "{p}", `{"apiVersion":"{g}/v1alpha1","kind":"SampleList","items":[]}`, nil, 422},
	{"POST", "{p}", `{"apiVersion":"{g}/v1alpha1","kind":"Sample","metadata":null}`, nil, 422},
	{"POST", "{p}", `{"apiVersion":"{g}/v1alpha1","kind":"Sample","metadata":[]}`, nil, 400},
	{"POST", "{p}", `{"apiVersion":"{g}/v1alpha1","kind":"Sample","metadata":{"name":"m","namespace":"default"}}`, nil, 400},
	{"POST", "{p}", `{"kind":"Sample"}{"kind":"Sample"}`, nil, 400},
	{"POST", "{p}", "\xff\xfe", nil, 400},
	{"POST", "{p}", sample("m", "{\"weight\":1,\"height\":1,\"color\":\"\xff\"}"), nil, 422},
	{"PUT", "{p}", sample("m", `{"weight":1,"height":1}`), nil, 400},
	{"PUT", "{p}/none", strings.Replace(sample("none", `{"weight":1,"height":1}`), `"labels"`, `"resourceVersion":"1","labels"`, 1), nil, 404},
	{"PATCH", "{p}", `{}`, []string{mergePatch}, 400},
	{"PATCH", "{p}/none", `{}`, []string{mergePatch}, 404},
	{"PATCH", "{p}/carl", `{}`, []string{"Content-Type: application/nonsense"}, 415},
	{"PATCH", "{p}/carl?force=true", `{}`, []string{mergePatch}, 422},
	{"PATCH", "{p}/carl?force=nonsense", `{}`, []string{mergePatch}, 422},
	{"PATCH", "{p}/carl", ``, []string{mergePatch}, 400},
	{"PATCH", "{p}/carl", `null`, []string{mergePatch}, 400},
	{"DELETE", "{p}/carl", `{"kind":"Pod","apiVersion":"v1"}`, nil, 400},
	{"DELETE", "{p}/carl?gracePeriodSeconds=-1&dryRun=All", "", nil, 200},
	{"DELETE", "{p}/carl?propagationPolicy=Orphan&orphanDependents=true", "", nil, 422},
	{"DELETE", "{p}/carl", `{"preconditions":{"resourceVersion":"1"}}`, nil, 409},
	{"DELETE", "{p}/carl?resourceVersion=1&dryRun=All", "", nil, 409},
	{"DELETE", "{p}?dryRun=All", "", nil, 200},
	{"DELETE", "{p}?limit=1&continue=a", "", nil, 400},
	{"GET", "{p}/carl", "", nil, 200},

	// Another version of the same objects.
	{"GET", "{o}/carl", "", nil, 200},
	{"GET", "{o}", "", []string{table}, 200},
	{"PATCH", "{o}/carl", `{"spec":{"color":"black"}}`, []string{mergePatch}, 200},
	{"POST", "{o}", strings.Replace(sample("old", `{"weight":1,"height":100}`), "v1alpha1", older, 1), nil, 201},
	{"POST", "{o}", sample("old", `{"weight":1,"height":100}`), nil, 400},
	{"GET", "{p}/old", "", nil, 200},
	{"GET", "{o}?watch=1&resourceVersion=0&timeoutSeconds=2", "", nil, 200},

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
	{"POST", "{p}", sample("x", `{"weight":1,"height":1}`), []string{"Impersonate-User: nobody"}, 403},
	{"POST", "/apis/{g}/v1alpha1/samples", sample("x", `{"weight":1,"height":1}`), nil, 404},
	{"POST", "/apis/{g}/v1alpha1/namespaces/nowhere/samples", sample("x", `{"weight":1,"height":1}`), nil, 404},
	{"GET", "/apis/{g}/v1alpha1/sheep", "", nil, 404},
	{"GET", "/apis/{g}/v2/samples", "", nil, 404},
	{"OPTIONS", "{p}", "", nil, 405},
}

// install installs the twin.
func (f *bench) install() {
	f.Helper()
	d := samples(f)
	d.Name, d.Spec.Group = "samples."+twin, twin
	if err := crd.Install(f.Context(), f.client, d); err != nil {
		f.Fatal(err)
	}
}

// testTwin sends the same requests to an aggregated kind and to the same kind with a
// CustomResourceDefinition. Both give the same answers.
func testTwin(f *bench) {
	for i, s := range steps {
		send := func(group string) answer {
			fill := strings.NewReplacer("{p}", f.path(group, ""), "{a}", "/apis/"+group+"/v1alpha1/samples", "{g}", group,
				"{n}", f.namespace, "{o}", strings.Replace(f.path(group, ""), "v1alpha1", older, 1))
			return f.do(s.method, fill.Replace(s.path), fill.Replace(s.body), s.header...)
		}
		got, want := both(send)
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

// both calls a function for the aggregated kind and for the twin at the same time.
func both[T any](call func(group string) T) (got, want T) {
	var calls sync.WaitGroup
	calls.Go(func() { got = call(group) })
	calls.Go(func() { want = call(twin) })
	calls.Wait()
	return got, want
}

var (
	uid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	made    = regexp.MustCompile(`made-[a-z0-9]{5}`)
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	version = regexp.MustCompile(`("resourceVersion"|resourceVersion): ?"?\d+"?`)
	current = regexp.MustCompile(`current: \d+`)
	record  = regexp.MustCompile(`in record \(\d+\)`)
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
	return fmt.Sprintf("%d %s %v", a.Code, normalText(text, group), a.Warning)
}

// normalText replaces the parts of a text that differ each time.
func normalText(text, group string) string {
	text = strings.ReplaceAll(text, group, "GROUP")
	text = uid.ReplaceAllString(text, "UID")
	text = made.ReplaceAllString(text, "made-NAME")
	text = instant.ReplaceAllString(text, "TIME")
	text = version.ReplaceAllString(text, "VERSION")
	text = current.ReplaceAllString(text, "current: N")
	text = record.ReplaceAllString(text, "in record (N)")
	text = token.ReplaceAllString(text, "TOKEN")
	text = age.ReplaceAllString(text, "AGE")
	text = retry.ReplaceAllString(text, "HASH")
	return text
}

func compact(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
