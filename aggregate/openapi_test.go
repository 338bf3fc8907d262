package aggregate

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/manifest"
)

// loose is a kind with fields that are not known in advance.
type loose struct {
	kube.Object
	Spec struct {
		Labels map[string]string            `json:"labels,omitempty"`
		Nested map[string]map[string]string `json:"nested,omitempty"`
		Free   map[string]any               `json:"free,omitempty" crd:"preserveUnknownFields"`
	} `json:"spec"`
}

func (loose) GVK() kube.GVK {
	return kube.GVK{Group: "loose.example.com", Version: "v1", Kind: "Loose"}
}

// TestSchemas looks for the field that stops the controller manager of Kubernetes, which reads the schemas for
// admission policies: additionalProperties that are true or false. The documents are the same each time.
func TestSchemas(t *testing.T) {
	documents := func() (all []string) {
		d := crd.Of[loose](crd.Options{})
		if err := d.Err(); err != nil {
			t.Fatal(err)
		}
		r, err := newResource(d)
		if err != nil {
			t.Fatal(err)
		}
		v3, v2, err := r.openAPI("v1")
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range []any{v3, v2} {
			data, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(data))
		}
		return all
	}
	first, again := documents(), documents()
	for i, text := range first {
		if !regexp.MustCompile(`"additionalProperties":\{`).MatchString(text) {
			t.Errorf("document %d has no maps: %s", i, text)
		}
		if found := regexp.MustCompile(`"additionalProperties":[^{].{20}`).FindString(text); found != "" {
			t.Errorf("document %d: %s", i, found)
		}
		if again[i] != text {
			t.Errorf("document %d differs the second time", i)
		}
	}
}

// TestObjects reads the objects by which kube-apiserver finds a server. It checks the server's certificate.
func TestObjects(t *testing.T) {
	d := crd.Of[thing](crd.Options{})
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	s := Server{Client: new(kube.Client), Kinds: []Any{Stored[thing]{Definition: d}}}
	s.Registration.Service.Name = "things"
	objects, err := s.Objects(manifest.Operator{Name: "test", Install: manifest.Install{Namespace: "somewhere"}})
	if err != nil || len(objects) != 2 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	text, err := json.Marshal(objects[1])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"v1.thing.example.com",` +
		`"labels":{"app.kubernetes.io/name":"test"}},"spec":{"service":{"namespace":"somewhere","name":"things","port":443},` +
		`"group":"thing.example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":100},"status":{}}`
	if string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}
