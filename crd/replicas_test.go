package crd_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// An old replica that starts again leaves alone what a newer release has added: a version, the
// status, a selectable field.
func TestOldReplicaStartsAgain(t *testing.T) {
	for name, add := range map[string]func(*crd.Definition){
		"a version": func(d *crd.Definition) {
			two := d.Spec.Versions[0]
			two.Name, two.Storage = "v2", false
			d.Spec.Versions = append(d.Spec.Versions, two)
		},
		"a subresource": func(d *crd.Definition) {
			d.Spec.Versions[0].Subresources = &crd.Subresources{Status: &struct{}{}}
		},
		"a selectable field": func(d *crd.Definition) {
			d.Spec.Versions[0].SelectableFields = []crd.SelectableField{{JSONPath: ".spec.kept"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			older, newer := caseOf[Old](t, s, crd.Options{}), caseOf[Old](t, s, crd.Options{})
			add(newer)
			s.install(t, older)
			if err := crd.Install(soon(t), s.client, newer); err != nil {
				t.Fatal(err)
			}
			definitions := kube.For[crd.Definition](s.client)
			before, err := definitions.Get(soon(t), older.Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := crd.Install(soon(t), s.client, older); err != nil {
				t.Errorf("the older release: %v", err)
			}
			after, err := definitions.Get(soon(t), older.Name)
			if err != nil || after.Generation != before.Generation {
				t.Errorf("the older release has changed the definition: %v", err)
			}
		})
	}
}

// heldPatch holds the first patch up until a function has returned.
type heldPatch struct {
	next  http.RoundTripper
	once  *sync.Once
	first func()
}

func (h heldPatch) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		h.once.Do(h.first)
	}
	return h.next.RoundTrip(r)
}

// Two releases install at once. The older one has compared its definition before the newer one has
// applied its own, and applies later.
func TestTwoReleasesInstallAtOnce(t *testing.T) {
	for name, installed := range map[string]bool{"beside an installed definition": true, "for the first time": false} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			older, newer := caseOf[Old](t, s, crd.Options{}), caseOf[Wide](t, s, crd.Options{})
			s.remove(t, older)
			if installed {
				s.install(t, older)
			}
			config := s.cluster.Config()
			config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
				return heldPatch{rt, new(sync.Once), func() {
					if err := crd.Install(soon(t), s.client, newer); err != nil {
						t.Errorf("the newer release: %v", err)
					}
				}}
			})
			slow, err := kube.Config{Rest: config, FieldManager: "pintle-test"}.Connect()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(slow.Close)
			// A newer one that came first has noted no older one.
			var refused *crd.IncompatibleError
			if err := crd.Install(soon(t), slow, older); errors.As(err, &refused) == installed || installed && err != nil {
				t.Errorf("the older release: %v", err)
			}
			is, err := kube.For[crd.Definition](s.client).Get(soon(t), older.Name)
			if err != nil {
				t.Fatal(err)
			}
			if spec := is.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]; spec.Properties["added"] == nil {
				t.Error("the field of the newer release is gone")
			}
		})
	}
}

// Install changes no definition if it refuses one.
func TestInstallComparesAllFirst(t *testing.T) {
	s := start(t)
	narrow, other := caseOf[Narrow](t, s, crd.Options{}), of[Team](t, s.group(), crd.Options{})
	s.install(t, caseOf[Old](t, s, crd.Options{}))
	s.remove(t, other)
	err := crd.Install(soon(t), s.client, other, narrow)
	if refused := (*crd.IncompatibleError)(nil); !errors.As(err, &refused) {
		t.Fatalf("a narrower definition: %v", err)
	}
	if _, err := kube.For[crd.Definition](s.client).Get(soon(t), other.Name); err == nil {
		t.Error("the other definition was installed")
	}
}
