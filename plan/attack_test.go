package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/kube"
)

// weed is of a kind that is not installed.
type weed struct{ kube.Object }

func (weed) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Weed"} }

// A node whose kind was never installed waits, also if its scope is not declared.
func TestKindOfUnknownScopeIsNotInstalled(t *testing.T) {
	s := newScene(t)
	weeds := kube.For[weed](s.gardens.Client())
	s.must(s.run(func(p *Plan) {
		Object(p, "a", weeds, func(Inputs) (*weed, error) { o := new(weed); o.Name = "a"; return o, nil })
		s.add(p, "b")
	}))
	s.is("a", Waiting, "its kind is not installed")
	s.is("b", Ready, "")
}

// Functions that return one object for two nodes are found out before anything is applied.
func TestNodesShareAnObject(t *testing.T) {
	s := newScene(t)
	shared := named("x")
	err := s.run(func(p *Plan) {
		Each(p, "n", []string{"1", "2", "3"}, s.handle, func(_ Inputs, key string) (*plant, error) {
			shared.Name = "x" + key
			return shared, nil
		})
	})
	if !errors.Is(err, errGraph) {
		t.Errorf("error %v", err)
	}
	s.must(s.run(func(p *Plan) {}))
	if len(s.plants()) > 0 {
		t.Errorf("%v are left", s.plants())
	}
}

// A name that the status cannot hold is a mistake in the description.
func TestNameIsNotUTF8(t *testing.T) {
	s := newScene(t)
	if err := s.run(func(p *Plan) { s.add(p, "a\xff") }); !errors.Is(err, errGraph) || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("error %v", err)
	}
}

// Names with odd characters and long ones go through.
func TestOddNames(t *testing.T) {
	s := newScene(t)
	odd := []string{"ü/\n\t\"<&>", strings.Repeat("long", 500), " ", "\x00", "a,b", "Ready", "{{.}}", "a\\nb"}
	describe := func(p *Plan) {
		var before []Need
		for i, name := range odd {
			before = append(before, Object(p, name, s.handle, func(Inputs) (*plant, error) {
				return named(fmt.Sprintf("p%d", i)), nil
			}).Needs(before...))
		}
	}
	for range 3 {
		s.must(s.run(describe))
		s.grow(all)
	}
	if st := s.garden().Status; st.Summary != "Ready" || len(st.Nodes) != len(odd) {
		t.Errorf("%q, %d nodes", st.Summary, len(st.Nodes))
	}
	s.statusWrites()
	s.must(s.delete())
	if len(s.plants()) > 0 {
		t.Errorf("%v are left", s.plants())
	}
}
