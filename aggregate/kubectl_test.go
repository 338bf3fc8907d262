package aggregate_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pintle-go/pintle/kubetest"
)

// launcher is the cluster's command, which has kubectl.
var launcher string

// kubectl runs kubectl of the local cluster.
func (f *bench) kubectl(input string, args ...string) (output string, err error) {
	f.Helper()
	cmd := f.command(input, args...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// command returns a call of kubectl.
func (f *bench) command(input string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(f.Context(), launcher, append([]string{
		"--dir", filepath.Dir(f.cluster.Kubeconfig()), "kubectl", "--cache-dir=" + f.cache, "-n", f.namespace}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	return cmd
}

// testKubectl makes kubectl ask for discovery and for schemas, besides objects.
func testKubectl(f *bench) {
	f.awaitSchemas()
	manifest := `{"apiVersion":"self.example.com/v1alpha1","kind":"Sample","metadata":{"name":"fred"},"spec":{"weight":80,"height":160}}`
	for _, s := range []struct {
		args  string
		input string
		want  []string
	}{
		{"api-resources --api-group=self.example.com -o wide", "", []string{
			"samples", "sm ", "true ", "Sample", "delete,deletecollection,get,list,patch,create,update,watch", "samples-all",
			"podviews", "PodView", "get,list,watch"}},
		{"explain samples.spec.weight", "", []string{"GROUP:      self.example.com", "FIELD: weight <integer>"}},
		{"explain samples --recursive", "", []string{"spec	<Object> -required-", "friends	<[]string>", "mood	<string>"}},
		{"explain podviews.spec", "", []string{"containers	<integer> -required-"}},
		{"apply --server-side -f -", manifest, []string{"sample.self.example.com/fred serverside-applied"}},
		{"apply -f -", manifest, []string{"sample.self.example.com/fred configured"}},
		{"get sm", "", []string{"NAME", "WEIGHT", "HEIGHT", "MOOD", "AGE", "fred", "80", "160"}},
		{"get sm -o wide", "", []string{"COLOR", "white"}},
		{"get samples-all -A", "", []string{"sample.self.example.com/fred"}},
		{"label sample fred happy=yes", "", []string{"sample.self.example.com/fred labeled"}},
		{"wait sample/fred --for=jsonpath={.spec.weight}=80 --timeout=5s", "", []string{"condition met"}},
		{"describe sample fred", "", []string{"Weight:  80"}},
		{"delete sample fred", "", []string{`sample.self.example.com "fred" deleted`}},
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

// awaitSchemas waits until kubectl finds the schemas of both groups.
func (f *bench) awaitSchemas() {
	f.Helper()
	// kube-apiserver fetches schemas a moment after the registration.
	for _, group := range []string{group, twin} {
		f.answers("kube-apiserver has the schema of "+group, http.StatusOK, func() answer {
			return f.do("GET", "/openapi/v3/apis/"+group+"/v1alpha1", "")
		})
	}
}

// command is a call of kubectl for both twins. In arguments and input {g} stands for the
// group, {k} for the resource, and {d} for a directory with files. Words of the arguments that
// contain spaces are in quotes.
type command struct {
	args  string
	input string
	code  int
}

// yaml returns a manifest of a sample.
func yaml(name, spec string) string {
	return fmt.Sprintf("apiVersion: {g}/v1alpha1\nkind: Sample\nmetadata:\n  name: %s\n  labels: {herd: commands}\nspec: %s\n", name, spec)
}

// The commands come one after another, and each sees the objects that those before it left.
var commands = []command{
	{"api-resources --api-group={g} --no-headers -o wide", "", 0},
	{"explain samples --api-version={g}/v1alpha1 --recursive", "", 0},
	{"explain samples.spec.color --api-version={g}/v1alpha1", "", 0},
	{"explain samples.spec.none --api-version={g}/v1alpha1", "", 1},
	{"explain samples --api-version={g}/v1alpha --recursive", "", 0},
	{"explain samples --api-version={g}/v1alpha1 --output=plaintext-openapiv2", "", 0},

	// Create, in a dry run and with each way of validation.
	{"create -f - --dry-run=server -o yaml", yaml("anna", "{weight: 100, height: 170}"), 0},
	{"get {k} anna", "", 1},
	{"create -f - -o yaml", yaml("anna", "{weight: 100, height: 170}"), 0},
	{"create -f -", yaml("anna", "{weight: 100, height: 170}"), 1},
	{"create -f -", yaml("bad", "{weight: 1, height: 100, color: pink, friends: [a, a]}"), 1},
	{"create -f -", yaml("bad", "{weight: many}"), 1},
	{"create -f - --validate=strict", yaml("typo", "{weight: 1, height: 100, wight: 2}"), 1},
	{"create -f - --validate=warn", yaml("warned", "{weight: 1, height: 100, wight: 2}"), 0},
	{"create -f - --validate=ignore", yaml("ignored", "{weight: 1, height: 100, wight: 2}"), 0},
	{"create -f - --as=nobody", yaml("other", "{weight: 1, height: 100}"), 1},

	// Get in all forms.
	{"get {k}", "", 0},
	{"get {k} -o wide", "", 0},
	{"get {k} -o wide --as=nobody", "", 1},
	{"get {k} -A --show-labels -l herd=commands", "", 0},
	{"get {k} anna -o yaml", "", 0},
	{"get {k} anna -o json --show-managed-fields", "", 0},
	{"get {k} -o name", "", 0},
	{"get {k} -o jsonpath={.items[*].spec.color}", "", 0},
	{"get {k} -o jsonpath-as-json={.items[*].spec}", "", 0},
	{"get {k} -o go-template={{len(.items)}}", "", 1},
	{"get {k} -o go-template={{len .items}}", "", 0},
	{"get {k} -o custom-columns=NAME:.metadata.name,WEIGHT:.spec.weight --no-headers", "", 0},
	{"get {k} --sort-by=.spec.weight -L herd", "", 0},
	{"get {k} --chunk-size=1", "", 0},
	{"get {k} -l herd=b", "", 0},
	{"get {k} -l !!", "", 1},
	{"get {k} --field-selector=spec.height=170", "", 0},
	{"get {k} --field-selector=spec.weight=100", "", 1},
	{"get {k} anna none", "", 1},
	{"get {k} none --ignore-not-found", "", 0},
	{"get {k} anna --subresource=status", "", 0},
	{"get {k}/anna -o kyaml", "", 0},
	{"get {k} -o custom-columns-file={d}/columns", "", 0},
	{"get {k} -o jsonpath-file={d}/jsonpath", "", 0},
	{"get {k} -o go-template-file={d}/template", "", 0},
	{"get {k} -o go-template-file={d}/none", "", 1},
	{"get {k} -o templatefile={d}/template", "", 0},
	{"get {k} -o nonsense", "", 1},
	{"get --raw /apis/{g}/v1alpha1/samples?limit=-1", "", 0},

	// Apply.
	{"apply -f -", yaml("bert", "{weight: 90, height: 160, friends: [anna]}"), 0},
	{"apply -f -", yaml("bert", "{weight: 90, height: 160, friends: [anna]}"), 0},
	{"diff -f -", yaml("bert", "{weight: 91, height: 160}"), 1},
	{"apply -f - -o yaml", yaml("bert", "{weight: 91, height: 160}"), 0},
	{"apply -f -", yaml("anna", "{weight: 101, height: 170}"), 0},
	{"apply -f -", yaml("anna", "{weight: 0, height: 170}"), 1},
	{"apply -f - --dry-run=server", yaml("new", "{weight: 1, height: 170}"), 0},
	{"apply view-last-applied {k}/bert", "", 0},
	{"apply --server-side -f -", yaml("carl", "{weight: 80, height: 150}"), 0},
	{"apply --server-side -f - --field-manager=other", yaml("carl", "{weight: 81, height: 150}"), 1},
	{"apply --server-side -f - --field-manager=other --force-conflicts", yaml("carl", "{weight: 81, height: 150}"), 0},
	{"apply --server-side -f -", yaml("carl", "{weight: 82, height: 150}"), 1},
	{"apply --server-side -f -", yaml("carl", "{weight: 82, height: 150, wight: 1}"), 1},
	{"get {k} carl -o yaml --show-managed-fields", "", 0},

	// Edit, with an editor that replaces a word.
	{"edit {k} anna", "weight: 101 weight: 102", 0},
	{"edit {k} anna", "none none", 0},
	{"edit {k} anna", "weight: 102 weight: 0", 1},
	{"edit {k} anna --subresource=status", "spec: spec:", 0},
	{"edit {k} none", "a b", 1},

	// Patch of each type.
	{"patch {k} anna --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/weight\",\"value\":103}]", "", 0},
	{"patch {k} anna --type=json -p [{\"op\":\"remove\",\"path\":\"/spec/none\"}]", "", 1},
	{"patch {k} anna --type=merge -p {\"spec\":{\"color\":\"brown\"}}", "", 0},
	{"patch {k} anna --type=merge -p {\"spec\":{\"color\":\"brown\"}}", "", 0},
	{"patch {k} anna --type=merge -p {\"spec\":{\"color\":\"pink\"}}", "", 1},
	{"patch {k} anna --type=merge -p {\"spec\":", "", 1},
	{"patch {k} anna --type=strategic -p {\"spec\":{\"weight\":1}}", "", 1},
	{"patch {k} anna --type=merge --subresource=status -p {\"status\":{\"mood\":\"good\"}} -o yaml", "", 0},
	{"patch {k} anna --type=merge --dry-run=server -p {\"spec\":{\"weight\":7}} -o jsonpath={.spec.weight}", "", 0},

	// Label and annotate.
	{"label {k} anna happy=yes", "", 0},
	{"label {k} anna happy=no", "", 1},
	{"label {k} anna happy=no --overwrite", "", 0},
	{"label {k} anna happy=!", "", 1},
	{"label {k} --all seen=yes", "", 0},
	{"label {k} anna --list", "", 0},
	{"annotate {k} anna note=one", "", 0},
	{"annotate {k} anna note-", "", 0},

	// Replace and scale.
	{"replace -f -", yaml("bert", "{weight: 95, height: 160}"), 0},
	{"replace -f -", yaml("none", "{weight: 95, height: 160}"), 1},
	{"replace --force -f -", yaml("bert", "{weight: 96, height: 160}"), 0},
	{"scale {k} bert --replicas=50", "", 0},
	{"scale {k} bert --replicas=50 --current-replicas=1", "", 1},
	{"scale {k} bert --replicas=0", "", 1},
	{"get {k} bert -o yaml", "", 0},

	// Wait and describe.
	{"wait {k}/bert --for=jsonpath={.spec.weight}=50 --timeout=20s", "", 0},
	{"wait {k}/bert --for=condition=Ready --timeout=10s", "", 1},
	{"wait {k}/none --for=delete --timeout=1s", "", 0},
	{"describe {k} anna", "", 0},
	{"describe {k} none", "", 1},
	{"auth can-i delete {k} --as=nobody", "", 1},

	// Delete with finalizers and each propagation.
	{"patch {k} anna --type=merge -p {\"metadata\":{\"finalizers\":[\"example.com/kept\"]}}", "", 0},
	{"delete {k} anna --dry-run=server", "", 0},
	{"delete {k} anna --wait=false", "", 0},
	{"delete {k} anna --timeout=10s", "", 1},
	{"patch {k} anna --type=merge -p {\"metadata\":{\"finalizers\":[\"example.com/more\"]}}", "", 1},
	{"patch {k} anna --type=merge -p {\"metadata\":{\"finalizers\":null}}", "", 0},
	{"wait {k}/anna --for=delete --timeout=20s", "", 0},
	{"delete {k} bert --cascade=orphan", "", 0},
	{"delete {k} carl --cascade=foreground", "", 0},
	{"delete {k} none", "", 1},
	{"delete {k} -l herd=b", "", 0},
	{"delete --raw /apis/{g}/v1alpha1/namespaces/{n}/samples/ignored -f -",
		`{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"none"}}`, 1},
	{"delete {k} --all", "", 0},
	{"get {k}", "", 0},
}

// result is the result of a command.
type result struct {
	Code           int
	Output, Errors string
}

// testCommands gives the same commands of kubectl to an aggregated kind and to its twin.
// Both have the same results.
func testCommands(f *bench) {
	f.awaitSchemas()
	for name, content := range map[string]string{
		"columns": "NAME          WEIGHT\nmetadata.name spec.weight\n", "jsonpath": "{.items[*].spec}", "template": "{{len .items}}",
	} {
		f.ok(os.WriteFile(filepath.Join(f.cache, name), []byte(content), 0o600))
	}
	for i, c := range commands {
		got, want := both(func(group string) result { return f.result(c, group) })
		name := fmt.Sprintf("command %d: %s", i, c.args)
		if want.Code != c.code {
			f.Errorf("%s: the twin with a definition ends with status %d, the table says %d:\n%s%s", name, want.Code, c.code, want.Output, want.Errors)
		}
		if got != want {
			f.Errorf("%s:\nserver: %s\ntwin:   %s", name, indent(got), indent(want))
		}
	}
	got, want := both(f.watched)
	if got != want {
		f.Errorf("get -w:\nserver:\n%s\ntwin:\n%s", got, want)
	}
}

// result runs a command for one group. What differs each time is normalized.
func (f *bench) result(c command, group string) result {
	fill := strings.NewReplacer("{g}", group, "{k}", "samples."+group, "{n}", f.namespace, "{d}", f.cache)
	cmd := f.command(fill.Replace(c.input), words(fill.Replace(c.args))...)
	if strings.HasPrefix(c.args, "edit") {
		from := strings.Fields(c.input)
		half := len(from) / 2
		cmd.Env = append(os.Environ(), fmt.Sprintf("KUBE_EDITOR=sed -i 's/%s/%s/'", strings.Join(from[:half], " "), strings.Join(from[half:], " ")))
	}
	var output, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &errs
	var r result
	if err := cmd.Run(); err != nil {
		r.Code = -1
		if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
			r.Code = ended.ExitCode()
		}
	}
	if strings.HasSuffix(c.args, "--list") || strings.HasPrefix(c.args, "api-resources") {
		// kubectl prints labels in any order, and fits columns to other kinds of the group.
		lines := strings.Split(output.String(), "\n")
		slices.Sort(lines)
		output = *bytes.NewBufferString(blanks.ReplaceAllString(strings.Join(lines, "\n"), " "))
	}
	r.Output, r.Errors = plainText(output.String(), group), plainText(errs.String(), group)
	return r
}

// words divides a line at single spaces that are outside of braces.
func words(line string) (all []string) {
	depth, word := 0, ""
	for _, c := range line {
		switch {
		case c == ' ' && depth == 0:
			all, word = append(all, word), ""
			continue
		case c == '{':
			depth++
		case c == '}':
			depth--
		}
		word += string(c)
	}
	return append(all, word)
}

var (
	ages    = regexp.MustCompile(` +(<invalid>|(\d+[smh])+) *( |$|\n)`) // and the padding of the column
	files   = regexp.MustCompile(`/tmp/[^\s"]+`)
	stamp   = regexp.MustCompile(`(?m)^[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ `)
	local   = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}`)
	watched = regexp.MustCompile(`^reflector\.go:\d+\] "Failed to watch" err="context deadline exceeded"`)
	blanks  = regexp.MustCompile(` +`)
	rvs     = regexp.MustCompile(`(Resource Version: +)\d+`)
)

// plainText returns the text of a command without the parts that differ each time.
func plainText(text, group string) string {
	text = normalText(text, group)
	text = files.ReplaceAllString(text, "FILE")
	text = stamp.ReplaceAllString(text, "")
	text = local.ReplaceAllString(text, "TIME")
	text = rvs.ReplaceAllString(text, "${1}VERSION")
	text = ages.ReplaceAllString(text, " AGE$3")
	var lines []string
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "podviews "): // the twin has no such kind
		case watched.MatchString(line): // the client's own time-out ends its watch now and then before it is answered
		default:
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// watched returns the lines of a watch while an object is created, changed and deleted.
func (f *bench) watched(group string) string {
	cmd := f.command("", "get", "samples."+group, "-w", "-o", "wide", "--output-watch-events")
	var lines safeBuffer
	cmd.Stdout, cmd.Stderr = &lines, &lines
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	path := f.path(group, "")
	object := strings.ReplaceAll(sample("seen", `{"weight":1,"height":100}`), "{g}", group)
	appears := func(text string) {
		f.Helper()
		kubetest.Eventually(f, "kubectl shows "+text, func() error {
			if said := lines.String(); !strings.Contains(said, text) {
				return fmt.Errorf("it shows %q", said)
			}
			return nil
		})
	}
	// The first object shows that the watch has begun.
	f.do("POST", path, strings.Replace(object, "seen", "first", 1))
	appears("first")
	f.do("POST", path, object)
	f.do("PATCH", path+"/seen", `{"spec":{"weight":2,"color":"black"}}`, mergePatch)
	f.do("DELETE", path+"/seen", "")
	appears("DELETED")
	f.do("DELETE", path+"/first", "")
	_, text, _ := strings.Cut(lines.String(), "first")
	text, _, _ = strings.Cut(text, "DELETED")
	return plainText(text, group)
}

// safeBuffer is a buffer that is read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
