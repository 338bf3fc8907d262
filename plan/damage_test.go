package plan

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// damage changes the inventory by hand.
func (s *scene) damage(change func(nodes []NodeStatus) []NodeStatus) {
	st := &s.garden().Status
	st.Nodes = change(st.Nodes)
	s.touch(s.garden())
}

func (s *scene) delete() error {
	now := metav1.Now()
	s.garden().DeletionTimestamp = &now
	_, err := s.plan().Delete(s.ctx)
	return err
}

// An object that stands twice in the inventory is not deleted while a node wants it.
func TestAnObjectIsRecordedTwice(t *testing.T) {
	for name, twin := range map[string]string{"the same name": "a", "another name": "z", "a former object": "a~1", "a later node": "b"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			describe := func(p *Plan) { s.add(p, "b", s.add(p, "a")) }
			s.must(s.run(describe))
			s.grow(all)
			s.must(s.run(describe))
			uid := s.plant("a").UID
			s.damage(func(nodes []NodeStatus) []NodeStatus {
				again := nodes[0]
				again.Name = twin
				return append(nodes, again)
			})
			for range 3 {
				s.must(s.run(describe))
				s.grow(all)
			}
			if a := s.plant("a"); a == nil || a.UID != uid {
				t.Errorf("the object of a was deleted: %+v", a)
			}
			if n := len(s.garden().Status.Nodes); n != 2 {
				t.Errorf("%d records are left", n)
			}
		})
	}
}

// A record that names no object keeps neither a plan nor the deletion of its owner.
func TestRecordsOfNoObject(t *testing.T) {
	for name, change := range map[string]func(*NodeStatus){
		"no name":         func(n *NodeStatus) { n.ObjectName = "" },
		"no version":      func(n *NodeStatus) { n.APIVersion = "" },
		"a wrong version": func(n *NodeStatus) { n.APIVersion = "a/b/c" },
		"a wrong name":    func(n *NodeStatus) { n.ObjectName = "../x" },
		"a wrong kind":    func(n *NodeStatus) { n.Kind = "?" },
		"a wrong group":   func(n *NodeStatus) { n.APIVersion = "a b/v1" },
		"a wrong space":   func(n *NodeStatus) { n.Namespace = "../x" },
		"no namespace":    func(n *NodeStatus) { n.Namespace = "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			describe := func(p *Plan) { s.add(p, "a") }
			s.must(s.run(describe))
			s.damage(func(nodes []NodeStatus) []NodeStatus {
				bad := nodes[0]
				bad.Name = "bad"
				change(&bad)
				return append(nodes, bad)
			})
			s.must(s.run(describe))
			s.damage(func(nodes []NodeStatus) []NodeStatus {
				bad := nodes[0]
				bad.Name = "bad"
				change(&bad)
				return append(nodes[:1], bad)
			})
			s.must(s.delete())
			if len(s.plants()) > 0 {
				t.Errorf("%v are left", s.plants())
			}
		})
	}
}

// A node of another kind does not say how an object leaves that an earlier node of its name
// has made.
func TestUndoOfAnotherKind(t *testing.T) {
	s := newScene(t)
	s.must(s.run(func(p *Plan) { s.add(p, "a").Retain() }))
	now := metav1.Now()
	s.garden().DeletionTimestamp = &now
	p := s.plan()
	things := s.shed.things()
	s.step(p, things, "a")
	_, err := p.Delete(s.ctx)
	s.must(err)
	if s.plant("a") == nil {
		t.Error("a retained object was deleted")
	}
}

// A clock that was ahead for a while neither keeps a node from being late nor a creation in
// doubt for longer than one that begins now.
func TestClockWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		describe := func(p *Plan) { s.add(p, "a").Within(time.Minute) }
		s.must(s.run(describe))
		s.grow(func(string) bool { return false })
		s.must(s.run(describe))
		s.damage(func(nodes []NodeStatus) []NodeStatus {
			nodes[0].Since = metav1.NewTime(time.Now().Add(1000 * time.Hour))
			return nodes
		})
		s.must(s.run(describe))
		time.Sleep(2 * time.Minute)
		s.must(s.run(describe))
		s.is("a", Degraded, "not ready within")
	})
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		describe := func(p *Plan) { s.step(p, things, "a") }
		s.must(s.run(describe))
		s.damage(func(nodes []NodeStatus) []NodeStatus {
			nodes[0].Thing.Made = false
			nodes[0].Thing.Called = metav1.NewTime(time.Now().Add(1000 * time.Hour))
			return nodes
		})
		s.shed.tools = nil
		things = s.shed.things() // another process
		for range 100 {
			s.must(s.run(describe))
			time.Sleep(5 * time.Second)
		}
		s.is("a", Ready, "")
	})
}
