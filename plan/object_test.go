package plan

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// A node that only reads does not keep the objects of nodes that have left.
func TestLookupKeepsNoObjectThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		soil := new(plant)
		soil.Namespace, soil.Name, soil.UID, soil.ResourceVersion = "default", "soil", "uid-soil", "7"
		soil.Status.Conditions = planted()
		s.all[plantPath("soil")] = soil
		s.foreign["uid-soil"] = true
		on := true
		describe := func(p *Plan) {
			Lookup(p, "soil", s.handle, kube.Key{Name: "soil"})
			s.add(p, "a")
			s.add(p, "b").When(func(Inputs) bool { return on })
		}
		s.turns(describe)
		on = false
		for range 20 {
			s.must(s.run(describe))
			time.Sleep(10 * time.Second)
		}
		if s.plant("b") != nil {
			t.Errorf("after 200 s the plant of an absent node is still there: %+v", s.garden().Status.Nodes)
		}
		s.kill()
	})
}

// A node that reads an object whose name is not known yet waits, without a request.
func TestLookupWithoutName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.must(s.run(func(p *Plan) { Lookup(p, "soil", s.handle, kube.Key{}) }))
		s.is("soil", Waiting, "the name of its object is not known")
		s.kill()
	})
}

// Without a store, too, an object of somebody else in the place of a recorded one is not
// taken over.
func TestForeignObjectInThePlaceOfARecordedOne(t *testing.T) {
	s := newScene(t)
	describe := func(p *Plan) { s.add(p, "a") }
	s.must(s.run(describe))
	other := new(plant)
	other.Namespace, other.Name, other.UID, other.ResourceVersion = "default", "a", "uid-other", "77"
	s.all[plantPath("a")] = other
	s.foreign["uid-other"] = true
	if err := s.run(describe); !errors.Is(err, kube.ErrTaken) {
		t.Errorf("got %v", err)
	}
	if s.plant("a").UID != types.UID("uid-other") || len(s.broken) > 0 {
		t.Errorf("broken: %v", s.broken)
	}
	s.broken = nil
}

// The object of a node that only reads from then on has left the plan.
func TestObjectThatBecomesALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.turns(func(p *Plan) { s.add(p, "a") })
		describe := func(p *Plan) { Lookup(p, "a", s.handle, kube.Key{Name: "other"}) }
		other := new(plant)
		other.Namespace, other.Name, other.UID, other.ResourceVersion = "default", "other", "uid-other", "77"
		s.all[plantPath("other")] = other
		for range 20 {
			s.must(s.run(describe))
			time.Sleep(10 * time.Second)
		}
		// No node wants the plant a.
		if got := s.plants(); !slices.Equal(got, []string{"other"}) {
			t.Errorf("plants are %v, nodes %+v", got, s.garden().Status.Nodes)
		}
		s.kill()
	})
}

// park is an owner without a namespace.
type park struct {
	kube.Object
	Status Status `json:"status,omitzero"`
}

func (park) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Park"} }

// parkland is a world with a park.
type parkland struct {
	*world
	park park
}

func (l *parkland) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Path == "/apis/example.com/v1":
		return respond(200, map[string]any{"kind": "APIResourceList", "resources": []any{
			map[string]any{"name": "parks", "kind": "Park", "namespaced": false},
			map[string]any{"name": "plants", "kind": "Plant", "namespaced": true},
		}})
	case strings.HasSuffix(r.URL.Path, "/parks/hyde/status"):
		if err := json.NewDecoder(r.Body).Decode(&l.park); err != nil {
			return nil, err
		}
		return respond(200, l.park)
	}
	return l.world.RoundTrip(r)
}

// The child of a cluster-scoped owner is in the namespace of its handle, and is deleted
// there.
func TestNamespaceOfTheHandle(t *testing.T) {
	s := newScene(t)
	land := &parkland{world: s.world}
	land.park.APIVersion, land.park.Kind = "example.com/v1", "Park"
	land.park.Name, land.park.UID, land.park.Finalizers = "hyde", "uid-hyde", []string{"example.com/park"}
	client, err := kube.Config{Rest: &rest.Config{Host: "http://world", Transport: land}, Namespace: "default"}.Connect()
	s.must(err)
	parks, plants := kube.For[park](client), kube.For[plant](client).In("default")
	for _, on := range []bool{true, false} {
		is := land.park
		is.ManagedFields = nil
		p := New(parks, &is, &is.Status)
		Object(p, "a", plants, func(Inputs) (*plant, error) { return named("a"), nil }).When(func(Inputs) bool { return on })
		if _, err := p.Run(t.Context()); err != nil {
			t.Errorf("on %v: %v", on, err)
		}
	}
	if s.plant("a") != nil {
		t.Errorf("the plant is left: %+v", land.park.Status.Nodes)
	}
}

// A mistake in the description does not keep the owner from being deleted.
func TestWrongPlanCanBeDeleted(t *testing.T) {
	s := newScene(t)
	s.must(s.run(func(p *Plan) { s.add(p, "a") }))
	p := s.plan()
	s.add(p, "a", nil)
	if _, err := p.Delete(s.ctx); err != nil || s.plant("a") != nil {
		t.Errorf("got %v, plants %v", err, s.plants())
	}
}
