package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// An owner that is deleted with the option to orphan leaves its children and things: whoever sees it
// first, and also if a step fails meanwhile. Without the option all but the retained ones are deleted.
func TestOrphanedDeletion(t *testing.T) {
	for _, marks := range []bool{false, true} {
		for _, first := range []string{"nobody", "the operator", "the collector", "the collector, and the operator fails"} {
			t.Run(fmt.Sprintf("marks %v, %s", marks, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t)
					things := s.shed.things()
					describe := func(p *Plan) {
						p.Marks = marks
						s.add(p, "b", s.add(p, "a"), s.step(p, things, "c"))
						s.add(p, "kept").Retain()
					}
					s.turns(describe)
					time.Sleep(time.Hour)
					s.turns(describe)
					want := "a b kept, tools [c]"
					switch first {
					case "nobody":
						want = "kept, tools []"
					case "the operator":
						s.garden().Finalizers = append(s.garden().Finalizers, metav1.FinalizerOrphanDependents)
					default:
						s.orphan()
					}
					if strings.HasSuffix(first, "fails") {
						s.killAt = 8
						p := s.plan()
						describe(p)
						_, _ = p.Delete(s.ctx)
						s.calm()
						s.ctx, s.gardens, s.handle = s.process(t.Context())
						things = s.shed.things()
					}
					s.remove(describe)
					if got := fmt.Sprint(strings.Join(s.plants(), " "), ", tools ", s.shed.names()); got != want {
						t.Errorf("there is %s, want %s", got, want)
					}
					for path, o := range s.all {
						if strings.Contains(path, "/secrets/") && (want[0] == 'a' || len(o.GetOwnerReferences()) == 0) {
							t.Errorf("the witness is left: %s %+v", path, o)
						}
					}
					s.kill()
				})
			})
		}
	}
}

// A plan that has failed to make its witness says so, and does not take somebody else's Secret.
func TestForeignWitness(t *testing.T) {
	s := newScene(t)
	describe := func(p *Plan) { p.Marks = true; s.add(p, "a") }
	at := s.plan().witness()
	path := "/api/v1/namespaces/default/secrets/" + at.ObjectName
	s.all[path] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: at.ObjectName, UID: "uid-theirs"}}
	if err := s.run(describe); !errors.Is(err, kube.ErrTaken) || s.garden().Status.Witness != "" {
		t.Errorf("got %v, the witness is %q", err, s.garden().Status.Witness)
	}
	s.is("a", Ready, "")
}
