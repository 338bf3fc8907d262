package crd_test

import (
	"encoding/json"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// Team has required fields of each type whose zero value is nil.
type Team struct {
	kube.Object
	Spec   Roster `json:"spec"`
	Status struct {
		Present []string         `json:"present"`
		Hours   map[string]int32 `json:"hours"`
		Count   int32            `json:"count"`
	} `json:"status,omitzero"`
}

type Roster struct {
	Members []string          `json:"members"`
	Rooms   map[string]string `json:"rooms"`
	Key     []byte            `json:"key" crd:"optional"`
	Shifts  []struct {
		Names []string `json:"names"`
	} `json:"shifts"`
	Share json.Number `json:"share,omitempty" crd:"type=number"`
	// The server refuses these if they are empty, and their tags make them optional.
	Guests []string          `json:"guests" crd:"optional,minItems=1"`
	Badges map[string]string `json:"badges" crd:"optional,minProperties=1"`
	Doors  []string          `json:"doors" crd:"minItems=1,default='[\"front\"]'"`
}

func (Team) GVK() kube.GVK { return kube.GVK{Group: "zero.pintle.test", Version: "v1", Kind: "Team"} }

func team(name string) *Team {
	o := new(Team)
	o.Name = name
	return o
}

// A type that Of accepts can be written with its zero value, by each verb: a list or a map that the
// definition requires is sent empty if it is nil, and one that is optional or has a default is not sent.
func TestZeroValueIsWritten(t *testing.T) {
	s := start(t)
	s.install(t, of[Team](t, "zero.pintle.test", crd.Options{}))
	teams := kube.For[Team](s.client).In(s.namespace)
	did := func(verb string) func(*Team, error) *Team {
		return func(o *Team, err error) *Team {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", verb, err)
			}
			return o
		}
	}
	created := did("create")(teams.Create(soon(t), team("created")))
	if is := created.Spec; is.Guests != nil || is.Badges != nil || len(is.Doors) != 1 {
		t.Errorf("created as %+v", is)
	}
	created.Spec.Doors = nil
	created.Labels = map[string]string{"a": "b"}
	did("update")(teams.Update(soon(t), created))
	did("apply")(teams.Apply(soon(t), team("applied")))
	did("ensure")(teams.Ensure(soon(t), team("ensured")))
	did("modify")(teams.Modify(soon(t), "created", func(o *Team) error {
		o.Spec.Members, o.Spec.Shifts = []string{"x"}, make([]struct {
			Names []string `json:"names"`
		}, 1)
		return nil
	}))
	emptied := did("modify again")(teams.Modify(soon(t), "created", func(o *Team) error {
		o.Spec.Members, o.Spec.Share = nil, "1.50"
		return nil
	}))
	if is := emptied.Spec; len(is.Members) > 0 || len(is.Shifts) != 1 || is.Share != "1.5" && is.Share != "1.50" {
		t.Errorf("modified to %+v", is)
	}
	for name, status := range map[string]func(o *Team) error{
		"ensured": func(o *Team) error { return teams.Status().Ensure(soon(t), o) },
		"applied": func(o *Team) error { return teams.Status().Apply(soon(t), o) },
	} {
		if err := status(did("get")(teams.Get(soon(t), name))); err != nil {
			t.Fatalf("status of %s: %v", name, err)
		}
		is := did("get")(teams.Get(soon(t), name)).Status
		if is.Present == nil || is.Hours == nil {
			t.Errorf("the status of %s is %+v", name, is)
		}
	}
}
