package optest

import (
	"slices"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/program"
)

// UnderRights tests the rights in a program's manifests. With all of them, the program must
// be refused nothing and must use each of them. Without one of the chosen, a request that
// needs it must be refused.
//
// play runs the program with all rights except those in without, has it do everything that
// it can until a request is refused, and returns the proxy between the program and the
// server. It may begin with t.Parallel.
func UnderRights(
	t *testing.T, all []Right, choose func([]Right) []Right, operator program.Operator,
	play func(t *testing.T, without ...Right) *Proxy,
) {
	t.Run("all", func(t *testing.T) {
		p := play(t)
		of := operator
		of.Install.Namespace = p.Namespace
		if err := p.Used.Compare(of); err != nil {
			t.Error(err)
		}
		if refused := p.Used.Refused(); len(refused) > 0 {
			t.Errorf("refused: %s", refused)
		}
	})
	for _, r := range choose(all) {
		t.Run("without "+r.String(), func(t *testing.T) {
			refused := play(t, r).Used.Refused()
			if !slices.ContainsFunc(refused, r.concerns) {
				t.Fatalf("refused: %q: is the right needed?", refused)
			}
		})
	}
}

// concerns reports whether the refused request needs the right. A request may need another
// right besides.
func (r Right) concerns(refused string) bool {
	resource := r.Resource
	if r.Verb == "create" || strings.HasSuffix(resource, "/finalizers") {
		return true // an apply that creates, an owner with blockOwnerDeletion
	}
	if r.Group != "" {
		resource += "." + r.Group
	}
	return strings.HasPrefix(refused, r.Verb+" "+resource)
}
