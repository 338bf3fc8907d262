package plan

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A run that has begun with an owner that was not deleted yet, or whose store is behind, must not undo what the garbage
// collector has done.
func TestOrphanedDeletionDuringARun(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				things := s.shed.things()
				added := false
				describe := func(p *Plan) {
					s.add(p, "b", s.add(p, "a"), s.step(p, things, "c"))
					if added {
						s.add(p, "late")
					}
				}
				s.turns(describe)
				added = late
				time.Sleep(time.Hour)
				p := s.plan()
				describe(p)
				deleted := metav1.Now()
				s.garden().DeletionTimestamp = &deleted
				s.orphan()
				time.Sleep(time.Second)
				_, _ = p.Run(s.ctx)
				want := "a b, tools [c]"
				if late {
					s.plant("late").CreationTimestamp = metav1.Now()
					want = "a b late, tools [c]"
				}
				s.remove(describe)
				if got := fmt.Sprint(strings.Join(s.plants(), " "), ", tools ", s.shed.names()); got != want {
					t.Errorf("there is %s, want %s", got, want)
				}
				s.kill()
			})
		})
	}
}
