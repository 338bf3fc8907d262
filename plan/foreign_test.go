package plan

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// The objects of others are neither taken over nor deleted.
func TestForeignObjects(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(o *plant)
		taken bool // the plan may take it over
	}{
		"of nobody":             {func(*plant) {}, false},
		"of nobody, our labels": {func(o *plant) { o.Labels = map[string]string{"plant": "a", "other": "x"} }, true},
		"of another controller": {func(o *plant) {
			yes := true
			o.Labels = map[string]string{"plant": "a"}
			o.OwnerReferences = []metav1.OwnerReference{{Kind: "Forest", Name: "wild", UID: "uid-wild", Controller: &yes}}
		}, false},
		"marked for another owner": {func(o *plant) {
			o.Labels = map[string]string{"plant": "a"}
			o.Annotations = map[string]string{Mark: "Garden.example.com/default/other/uid-other"}
		}, false},
		"marked for an earlier owner of the name": {func(o *plant) {
			o.Labels = map[string]string{"plant": "a"}
			o.Annotations = map[string]string{Mark: "Garden.example.com/default/eden/uid-former"}
		}, true},
		"marked for an earlier owner of the name, being deleted": {func(o *plant) {
			begun := metav1.Now()
			o.Labels, o.DeletionTimestamp, o.Finalizers = map[string]string{"plant": "a"}, &begun, []string{"example.com/slow"}
			o.Annotations = map[string]string{Mark: "Garden.example.com/default/eden/uid-former"}
		}, false},
		"marked for an earlier owner, other labels": {func(o *plant) {
			o.Annotations = map[string]string{Mark: "Garden.example.com/default/eden/uid-former"}
		}, false},
		"marked for an owner of another kind": {func(o *plant) {
			o.Labels = map[string]string{"plant": "a"}
			o.Annotations = map[string]string{Mark: "Park.example.com/default/eden/uid-former"}
		}, false},
	} {
		for _, retain := range []bool{false, true} {
			t.Run(fmt.Sprint(name, retain), func(t *testing.T) {
				s := newScene(t)
				s.put("a", c.make)
				describe := func(p *Plan) {
					n := s.add(p, "a")
					if retain {
						n.Retain()
					}
				}
				err := s.run(describe)
				if errors.Is(err, kube.ErrTaken) == c.taken {
					t.Errorf("got %v, may be taken: %v", err, c.taken)
				}
				if !c.taken {
					s.foreign[s.plant("a").UID] = true
				}
				s.must(s.run(func(*Plan) {}))
				if gone := s.plant("a") == nil; gone != (c.taken && !retain) {
					t.Errorf("gone: %v", gone)
				}
				s.kept()
			})
		}
	}
}

// An object that was made by the plan is not deleted once it is no longer the plan's.
func TestObjectsThatAreNoLongerOurs(t *testing.T) {
	for name, change := range map[string]func(s *scene, o *plant){
		"recreated by somebody": func(s *scene, o *plant) { o.UID = "uid-other"; o.OwnerReferences = nil },
		"adopted by somebody":   func(s *scene, o *plant) { o.OwnerReferences[0].UID = "uid-wild" },
		"orphaned":              func(s *scene, o *plant) { o.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.must(s.run(func(p *Plan) { s.add(p, "a") }))
			o := s.plant("a")
			o.OwnerReferences = slices.Clone(o.OwnerReferences)
			change(s, o)
			s.foreign[o.UID] = true
			s.must(s.run(func(*Plan) {}))
			action, err := s.plan().Delete(s.ctx)
			if s.plant("a") == nil || err != nil || action != controller.Done {
				t.Errorf("plant %v, %v %v", s.plant("a"), action, err)
			}
			if nodes := s.garden().Status.Nodes; len(nodes) > 0 {
				t.Errorf("the inventory has %+v", nodes)
			}
			s.kept()
		})
	}
}

// The process may end after it has made an object again, and before it has recorded that.
func TestObjectMadeAgainUnrecorded(t *testing.T) {
	s := newScene(t)
	s.must(s.run(func(p *Plan) { s.add(p, "a") }))
	s.plant("a").UID = "uid-again"
	s.must(s.run(func(*Plan) {}))
	if s.plant("a") != nil {
		t.Error("the object is left")
	}
}

// An owner that is deleted with the option to orphan leaves its children.
func TestOrphanedDeletion(t *testing.T) {
	s := newScene(t)
	s.must(s.run(func(p *Plan) { s.add(p, "b", s.add(p, "a")) }))
	s.garden().Finalizers = append(s.garden().Finalizers, metav1.FinalizerOrphanDependents)
	action, err := s.plan().Delete(s.ctx)
	if err != nil || action != controller.Done || s.plant("a") == nil || s.plant("b") == nil {
		t.Errorf("plants %v, %v %v", s.plants(), action, err)
	}
}

// The garbage collector ends the option to orphan at once if no object has an owner reference. So what
// happens to the objects of a plan with Marks does not depend on who sees the owner first.
func TestOrphanedDeletionOfMarks(t *testing.T) {
	for _, orphans := range []bool{false, true} {
		s := newScene(t)
		describe := func(p *Plan) {
			p.Marks = true
			s.add(p, "b", s.add(p, "a"))
			s.add(p, "kept").Retain()
		}
		s.must(s.run(describe))
		if orphans {
			s.garden().Finalizers = append(s.garden().Finalizers, metav1.FinalizerOrphanDependents)
		}
		p := s.plan()
		describe(p)
		action, err := p.Delete(s.ctx)
		if got := s.plants(); err != nil || action != controller.Done || !slices.Equal(got, []string{"kept"}) {
			t.Errorf("with the finalizer: %v, plants %v, %v %v", orphans, got, action, err)
		}
	}
}
