package crd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"k8s.io/client-go/rest"
)

// Job and its parts are the storage version, v2.
type Job struct {
	kube.Object
	Spec   JobSpec   `json:"spec"`
	Status JobStatus `json:"status,omitzero"`
}

func (Job) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v2", Kind: "Job"} }

type JobSpec struct {
	Schedule string          `json:"schedule" crd:"minLength=1"`
	Zone     string          `json:"zone,omitempty" crd:"pattern='^[A-Z]'"` // not in v1
	Ports    []int64         `json:"ports,omitempty"`                       // v1 has the first
	Steps    []Step          `json:"steps,omitempty" crd:"listType=map,listMapKey=name"`
	Hosts    []Host          `json:"hosts,omitempty"`
	Limits   *Limits         `json:"limits,omitempty"` // not in v1
	Replicas *int32          `json:"replicas,omitempty"`
	Raw      json.RawMessage `json:"raw,omitempty"`
}

type Step struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	User  int64  `json:"user,omitempty"` // not in v1
}

type Host struct {
	Address string `json:"address"`
	Weight  int64  `json:"weight,omitempty"` // not in v1
}

type Limits struct {
	CPU string `json:"cpu,omitempty"`
}

type JobStatus struct {
	Runs int64 `json:"runs,omitempty"` // not in v1
}

// JobV1 is the older version.
type JobV1 struct {
	kube.Object
	Spec struct {
		Cron     string          `json:"cron" crd:"minLength=1"`
		Port     int64           `json:"port,omitempty"`
		Steps    []StepV1        `json:"steps,omitempty" crd:"listType=map,listMapKey=name"`
		Hosts    []string        `json:"hosts,omitempty"`
		Replicas int32           `json:"replicas" crd:"optional"`
		Raw      json.RawMessage `json:"raw,omitempty"`
		Contact  string          `json:"contact,omitempty"` // not in v2
	} `json:"spec"`
}

func (JobV1) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Job"} }

type StepV1 struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

func toV2(from *JobV1, to *Job) error {
	if from.Spec.Cron == "refuse" {
		return errors.New("no such schedule")
	}
	to.Spec.Schedule, to.Spec.Raw = from.Spec.Cron, from.Spec.Raw
	to.Spec.Replicas = &from.Spec.Replicas
	if from.Spec.Port != 0 {
		to.Spec.Ports = []int64{from.Spec.Port}
	}
	for _, s := range from.Spec.Steps {
		to.Spec.Steps = append(to.Spec.Steps, Step{Name: s.Name, Image: s.Image})
	}
	for _, h := range from.Spec.Hosts {
		to.Spec.Hosts = append(to.Spec.Hosts, Host{Address: h})
	}
	return nil
}

func toV1(from *Job, to *JobV1) error {
	to.Spec.Cron, to.Spec.Raw = from.Spec.Schedule, from.Spec.Raw
	if from.Spec.Replicas != nil {
		to.Spec.Replicas = *from.Spec.Replicas
	}
	if len(from.Spec.Ports) > 0 {
		to.Spec.Port = from.Spec.Ports[0]
	}
	for _, s := range from.Spec.Steps {
		to.Spec.Steps = append(to.Spec.Steps, StepV1{Name: s.Name, Image: s.Image})
	}
	for _, h := range from.Spec.Hosts {
		to.Spec.Hosts = append(to.Spec.Hosts, h.Address)
	}
	return nil
}

func jobs(t *testing.T) *crd.Definition {
	t.Helper()
	d := crd.Join(crd.Of[Job](crd.Options{}), crd.Converts(crd.Of[JobV1](crd.Options{}), toV2, toV1))
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return d
}

// converted returns an object as another version.
func converted(t *testing.T, d *crd.Definition, object, version string) string {
	t.Helper()
	out, err := d.Convert([]byte(object), version)
	if err != nil {
		t.Fatalf("%s to %s: %v", object, version, err)
	}
	return string(out)
}

// as returns the fields of an object but apiVersion and kind. It leaves out the note of kept fields.
func as(t *testing.T, object string) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(object), &fields); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	meta, _ := fields["metadata"].(map[string]any)
	if a, is := meta["annotations"].(map[string]any); is {
		for key := range a {
			if strings.HasPrefix(key, "crd.pintle.dev/kept-") {
				delete(a, key)
			}
		}
		if len(a) == 0 {
			delete(meta, "annotations")
		}
	}
	return fields
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if a, b := as(t, got), as(t, want); !reflect.DeepEqual(a, b) {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

const (
	v1 = `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"}`
	v2 = `{"apiVersion":"example.com/v2","kind":"Job","metadata":{"name":"a"}`
	v3 = `{"apiVersion":"example.com/v3","kind":"Job","metadata":{"name":"a"}`
)

// Every object comes back as it was, however often it is converted. Between, it is written.
func TestConvertThereAndBack(t *testing.T) {
	d := jobs(t)
	for name, c := range map[string]struct{ from, there string }{
		"all": {v2 + `,"spec":{"schedule":"* *","zone":"UTC","replicas":3,"ports":[9007199254740993,2],
			"steps":[{"name":"a","image":"i","user":9007199254740993},{"name":"b","image":"i"}],
			"hosts":[{"address":"x"},{"address":"x","weight":1},{"address":"y"}],"limits":{"cpu":"1"},
			"raw":{"a":1.50,"b":[null,{}]}},"status":{"runs":4}}`,
			v1 + `,"spec":{"cron":"* *","port":9007199254740993,"replicas":3,
			"steps":[{"name":"a","image":"i"},{"name":"b","image":"i"}],"hosts":["x","x","y"],"raw":{"a":1.50,"b":[null,{}]}}}`},
		"empty lists": {v2 + `,"spec":{"schedule":"*","ports":[],"hosts":[],"limits":{},"raw":{}}}`,
			v1 + `,"spec":{"cron":"*","replicas":0,"raw":{}}}`},
		"v1": {v1 + `,"spec":{"cron":"*","contact":"me","port":7}}`,
			v2 + `,"spec":{"schedule":"*","replicas":0,"ports":[7]}}`},
		"unknown": {v2 + `,"spec":{"schedule":"*","replicas":1,"new":{"a":1}}}`, v1 + `,"spec":{"cron":"*","replicas":1}}`},
	} {
		to, back := "v1", "v2"
		if strings.Contains(c.from, "/v1") {
			to, back = back, to
		}
		there := converted(t, d, c.from, to)
		equal(t, name+" there", there, c.there)
		if got := converted(t, d, there, back); strings.Contains(got, "kept") {
			t.Errorf("%s: a note is left: %s", name, got)
		} else {
			equal(t, name+" back", got, c.from)
			equal(t, name+" there again", converted(t, d, got, to), there)
		}
	}
}

// The API server converts parts of objects. Structs write the fields that they require.
func TestConvertPart(t *testing.T) {
	d := jobs(t)
	const zeros = `{"metadata":{},"spec":{"schedule":"","replicas":0}}`
	const zoned = `{"metadata":{},"spec":{"schedule":"","zone":"UTC"}}`
	for part, back := range map[string]string{
		v2 + `}`: v2 + `,"spec":{"schedule":"","replicas":0}}`,
		`{"apiVersion":"example.com/v2","kind":"Job"}`:                                       zeros,
		`{"apiVersion":"example.com/v2","kind":"Job","metadata":null,"spec":{"zone":"UTC"}}`: zoned,
		v2 + `,"spec":{"steps":[{"name":"a","user":1}]}}`: v2 +
			`,"spec":{"schedule":"","steps":[{"name":"a","image":"","user":1}]}}`,
	} {
		equal(t, part, converted(t, d, converted(t, d, part, "v1"), "v2"), back)
	}
}

// Numbers and metadata keep their text.
func TestConvertText(t *testing.T) {
	meta := `{"uid":"u","name":"a","managedFields":[{"b":1.0,"a":"<\u003e"}],"labels":{"x":"y"}}`
	out := converted(t, jobs(t), `{"kind":"Job","apiVersion":"example.com/v1",
		"spec":{"cron":"*","raw":1.50,"replicas":1},"metadata":`+meta+`}`, "v2")
	for _, want := range []string{`"metadata":` + meta, `"raw":1.50`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nlacks %s", out, want)
		}
	}
	// With a note the rest keeps its text.
	out = converted(t, jobs(t), `{"kind":"Job","apiVersion":"example.com/v1",
		"spec":{"cron":"*","raw":1.50,"contact":"c"},"metadata":`+meta+`}`, "v2")
	for _, want := range []string{`"managedFields":[{"b":1.0,"a":"<\u003e"}]`, `"raw":1.50`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nlacks %s", out, want)
		}
	}
}

// A write through a version that lacks fields keeps them, and does not bring back what it changed.
func TestKept(t *testing.T) {
	d := jobs(t)
	const full = v2 + `,"spec":{"schedule":"*","zone":"UTC","replicas":1,"ports":[1,2],
		"steps":[{"name":"a","image":"i","user":1},{"name":"b","image":"i","user":2}],
		"hosts":[{"address":"x","weight":1},{"address":"y","weight":2}]}}`
	for name, c := range map[string]struct {
		change func(spec map[string]any)
		want   string
	}{
		"another field": {func(s map[string]any) { s["cron"] = "0" },
			`{"schedule":"0","zone":"UTC","replicas":1,"ports":[1,2],"steps":[{"name":"a","image":"i","user":1},
			{"name":"b","image":"i","user":2}],"hosts":[{"address":"x","weight":1},{"address":"y","weight":2}]}`},
		"the port": {func(s map[string]any) { s["port"] = 7 },
			`{"schedule":"*","zone":"UTC","replicas":1,"ports":[7],"steps":[{"name":"a","image":"i","user":1},
			{"name":"b","image":"i","user":2}],"hosts":[{"address":"x","weight":1},{"address":"y","weight":2}]}`},
		"no port": {func(s map[string]any) { delete(s, "port") },
			`{"schedule":"*","zone":"UTC","replicas":1,"steps":[{"name":"a","image":"i","user":1},
			{"name":"b","image":"i","user":2}],"hosts":[{"address":"x","weight":1},{"address":"y","weight":2}]}`},
		"the lists": {func(s map[string]any) {
			s["steps"] = []any{map[string]any{"name": "c", "image": "i"}, map[string]any{"name": "b", "image": "j"}}
			s["hosts"] = []any{"y", "z"}
		}, `{"schedule":"*","zone":"UTC","replicas":1,"ports":[1,2],"steps":[{"name":"c","image":"i"},
			{"name":"b","image":"j","user":2}],"hosts":[{"address":"y","weight":2},{"address":"z"}]}`},
	} {
		var o map[string]any
		if err := json.Unmarshal([]byte(converted(t, d, full, "v1")), &o); err != nil {
			t.Fatal(err)
		}
		c.change(o["spec"].(map[string]any))
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, name, converted(t, d, string(text), "v2"), v2+`,"spec":`+c.want+`}`)
	}
}

// A note that somebody has made has no effect if the schema does not allow it or if it is no note.
func TestForgedNote(t *testing.T) {
	d := jobs(t)
	for note, zone := range map[string]bool{
		`{"f":{"spec":{"f":{"zone":{"v":"Zulu"}}}}}`: true,
		`{"f":{"spec":{"f":{"zone":{"v":"zulu"}}}}}`: false,
		`{"f":{"spec":{"f":{"zone":{"v":7}}}}}`:      false,
		`{"f":{"spec":{"f":{"steps":{"v":[{}]}}}}}`:  false,
		`{"f":{"metadata":{"v":{"name":"b"}}}}`:      false,
		`{"f":{"spec":null}}`:                        false,
		`{"f":{"spec":{"i":[null,{"id":"x"}]}}}`:     false,
		`{"v":7}`:                                    false, `null`: false, `7`: false, `{`: false, ``: false, `{"v":`: false,
	} {
		object := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","annotations":{
			"crd.pintle.dev/kept-v2":%q}},"spec":{"cron":"*","replicas":1}}`, note)
		want := v2 + `,"spec":{"schedule":"*","replicas":1}}`
		if zone {
			want = v2 + `,"spec":{"schedule":"*","replicas":1,"zone":"Zulu"}}`
		}
		equal(t, note, converted(t, d, object, "v2"), want)
	}
}

// Reading never fails because a note is too large; the writes that would lose something do.
func TestLargeNote(t *testing.T) {
	d := jobs(t)
	large := strings.Repeat("x", 201<<10)
	read := converted(t, d, v2+`,"spec":{"schedule":"*","replicas":1,"zone":"Z`+large+`"}}`, "v1")
	if len(read) > 1000 || !strings.Contains(read, "kept-v2") {
		t.Fatalf("read: %d bytes", len(read))
	}
	if _, err := d.Convert([]byte(read), "v2"); err == nil || !strings.Contains(err.Error(), "write the object in v2") {
		t.Errorf("a write through v1: %v", err)
	}
	if _, err := d.Convert([]byte(v1+`,"spec":{"cron":"*","contact":"`+large+`"}}`), "v2"); err == nil ||
		!strings.Contains(err.Error(), "v2 lacks fields of v1 that are too large to be kept") {
		t.Errorf("a write in v1: %v", err)
	}
	// The annotations of the user count: the server refuses 256 KiB of them all.
	object := fmt.Sprintf(`{"apiVersion":"example.com/v2","kind":"Job","metadata":{"name":"a","annotations":{"a":%q}},
		"spec":{"schedule":"*","zone":"Z%s"}}`, strings.Repeat("y", 200<<10), strings.Repeat("x", 100<<10))
	if read := converted(t, d, object, "v1"); len(read) > 202<<10 || !strings.Contains(read, "kept-v2") {
		t.Errorf("beside others: %d bytes", len(read))
	}
}

// A function may change labels and annotations, or leave the metadata out.
func TestConvertLabels(t *testing.T) {
	for name, c := range map[string]struct {
		change func(to *Job)
		want   string
	}{
		"unchanged": {func(*Job) {}, `{"name":"a","labels":{"l":"1"},"annotations":{"a":"1","b":"2"}}`},
		"replaced": {func(to *Job) { *to = Job{Spec: to.Spec} },
			`{"name":"a","labels":{"l":"1"},"annotations":{"a":"1","b":"2"}}`},
		"changed": {func(to *Job) { to.Labels["l"] = "2"; delete(to.Annotations, "a") },
			`{"name":"a","labels":{"l":"2"},"annotations":{"b":"2"}}`},
		"renamed": {func(to *Job) { to.Name, to.UID, to.Labels = "b", "u", nil },
			`{"name":"a","annotations":{"a":"1","b":"2"}}`},
	} {
		change := func(from *JobV1, to *Job) error {
			err := toV2(from, to)
			c.change(to)
			return err
		}
		d := crd.Join(crd.Of[Job](crd.Options{}), crd.Converts(crd.Of[JobV1](crd.Options{}), change, toV1))
		equal(t, name, converted(t, d, `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","labels":{"l":"1"},
			"annotations":{"a":"1","b":"2"}},"spec":{"cron":"*","replicas":1}}`, "v2"),
			`{"metadata":`+c.want+`,"spec":{"schedule":"*","replicas":1}}`)
	}
}

// JobV3 is a third version.
type JobV3 struct {
	kube.Object
	Spec struct {
		When string `json:"when"`
		Note string `json:"note,omitempty"` // nowhere else
	} `json:"spec"`
}

func (JobV3) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v3", Kind: "Job"} }

func threeVersions(t *testing.T) *crd.Definition {
	t.Helper()
	d := crd.Join(crd.Of[Job](crd.Options{}), crd.Converts(crd.Of[JobV1](crd.Options{}), toV2, toV1),
		crd.Converts(crd.Of[JobV3](crd.Options{}),
			func(from *JobV3, to *Job) error { to.Spec.Schedule = from.Spec.When; return nil },
			func(from *Job, to *JobV3) error { to.Spec.When = from.Spec.Schedule; return nil }))
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return d
}

// Versions convert through the storage version, and every one keeps what is its own.
func TestConvertThree(t *testing.T) {
	d := threeVersions(t)
	object := v3 + `,"spec":{"when":"*","note":"n"}}`
	first := converted(t, d, object, "v1")
	equal(t, "v3 as v1", first, v1+`,"spec":{"cron":"*","replicas":0}}`)
	first = strings.Replace(first, `"cron":"*"`, `"cron":"0","contact":"c"`, 1)
	third := converted(t, d, first, "v3")
	equal(t, "v1 as v3", third, v3+`,"spec":{"when":"0","note":"n"}}`)
	equal(t, "v3 as v1 again", converted(t, d, third, "v1"), v1+`,"spec":{"cron":"0","replicas":0,"contact":"c"}}`)
	equal(t, "v3 as v2", converted(t, d, third, "v2"), v2+`,"spec":{"schedule":"0"}}`)
}

func TestConvertErrors(t *testing.T) {
	d := jobs(t)
	for object, want := range map[string]string{
		`{`: "decode object", `[]`: "decode object", `{"metadata":7}`: "decode metadata",
		`{"apiVersion":"example.com/v1","kind":"Other"}`: "there is no conversion of v1 Other in example.com to v2",
		`{"apiVersion":"example.com/v7","kind":"Job"}`:   "there is no conversion of v7",
		`{"apiVersion":"example.org/v1","kind":"Job"}`:   "there is no conversion of v1 Job in example.org",
		v1 + `,"spec":{"cron":7}}`:                       "decode v1",
		v1 + `,"spec":{"cron":"refuse"}}`:                "no such schedule",
		v1 + `,"spec":7}`:                                "decode v1",
	} {
		if _, err := d.Convert([]byte(object), "v2"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", object, err)
		}
	}
	if _, err := d.Convert([]byte(v2+`}`), "v9"); !errors.Is(err, crd.ErrVersion) {
		t.Errorf("to v9: %v", err)
	}
	if _, err := crd.Of[Job](crd.Options{}).Convert([]byte(v2+`}`), "v1"); !errors.Is(err, crd.ErrVersion) {
		t.Errorf("without functions: %v", err)
	}
	if out := converted(t, d, v2+`}`, "v2"); out != v2+`}` {
		t.Errorf("to its own version: %s", out)
	}
}

// JobDefault has a default that v2 lacks.
type JobDefault struct {
	kube.Object
	Spec struct {
		Schedule string `json:"schedule"`
		Zone     string `json:"zone,omitempty" crd:"default=UTC"`
	} `json:"spec"`
}

func (JobDefault) GVK() kube.GVK { return JobV1{}.GVK() }

// nothing converts without setting a field.
func nothing[Other any, Stored any, P interface {
	*Other
	kubeObject
}](o crd.Options) *crd.Definition {
	return crd.Converts(crd.Of[Other, P](o), func(*Other, *Stored) error { return nil },
		func(*Stored, *Other) error { return nil })
}

func TestConvertsRefuses(t *testing.T) {
	var o crd.Options
	of2, of1 := crd.Of[Job](o), crd.Of[JobV1](o)
	pair1 := crd.Converts(of1, toV2, toV1)
	pair3, zoned := nothing[JobV3, Job](o), nothing[JobDefault, Job](o)
	byHand := *of2
	byHand.Spec.Conversion = &crd.Conversion{Strategy: "None"}
	same := func(_, _ *JobV3) error { return nil }
	for want, d := range map[string]*crd.Definition{
		"between crd_test.JobV1 and crd_test.Job: the definition is of crd_test.Job": crd.Converts(of2, toV2, toV1),
		"the storage version is of crd_test.JobV3":                                   crd.Join(crd.Of[JobV3](o), pair1),
		"v3 has no functions that convert":                                           crd.Join(of2, pair1, crd.Of[JobV3](o)),
		"v1 has no functions that convert":                                           crd.Join(of2, pair3, of1),
		"v1 comes first":                                                             crd.Join(pair1, of2),
		"Spec.Conversion is set":                                                     crd.Join(&byHand, pair1),
		"a function is nil":                                                          crd.Converts(of1, toV2, nil),
		"several versions or functions already":                                      crd.Converts(pair1, toV2, toV1),
		".spec.zone has the defaults none and \"UTC\"":                               crd.Join(of2, zoned),
		"unknown key": crd.Converts(wrongDefinition, same, same),
	} {
		if err := d.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	d := crd.Join(of2, pair1)
	c := d.Spec.Conversion
	if want := (crd.WebhookConversion{ConversionReviewVersions: []string{"v1"}}); c == nil || c.Strategy != "Webhook" ||
		!reflect.DeepEqual(*c.Webhook, want) {
		t.Errorf("conversion: %+v", c)
	}
	// A second definition has a client config of its own.
	d.Spec.Conversion.Webhook.ClientConfig = &crd.WebhookClientConfig{}
	if crd.Join(of2, pair1).Spec.Conversion.Webhook.ClientConfig != nil || of2.Spec.Conversion != nil {
		t.Error("the definitions share their conversion")
	}
}

// Install needs the address of the webhook.
func TestInstallWithoutAddress(t *testing.T) {
	if err := crd.Install(t.Context(), unused(t), jobs(t)); err == nil || !strings.Contains(err.Error(), "ClientConfig") {
		t.Error(err)
	}
}

// unused returns a client of no server.
func unused(t *testing.T) *kube.Client {
	t.Helper()
	c, err := kube.Config{Rest: &rest.Config{Host: "https://127.0.0.1:1"}, FieldManager: "test"}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
