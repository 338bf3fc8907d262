package kube

import (
	"context"
	"iter"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// namesAndNotes returns the names and notes that a read of a store yields.
func namesAndNotes(t *testing.T, seq iter.Seq2[*corev1.ConfigMap, error]) (all []string) {
	t.Helper()
	for o, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o.Name+" "+o.Data["note"])
	}
	return all
}

func labeledApp(app string) func(*corev1.ConfigMap) {
	return func(o *corev1.ConfigMap) { o.Labels = map[string]string{"app": app} }
}

// This process takes an object out of the answer to a read, by a handle of another type than that of
// the store. The store cannot take the object in the server's answer, and the watch is late.
func TestOwnWriteOfAnotherTypeMovesAnObject(t *testing.T) {
	for name, test := range map[string]struct {
		before, after func(*corev1.ConfigMap)
		read          func(context.Context, *ownCase) iter.Seq2[*corev1.ConfigMap, error]
	}{
		"labels": {
			labeledApp("web"), labeledApp("db"),
			func(ctx context.Context, c *ownCase) iter.Seq2[*corev1.ConfigMap, error] {
				return c.cms.Cached().Labeled(ctx, "app=web")
			},
		},
		"owners": {
			ownedByUID("owner"), ownedByUID("another"),
			func(ctx context.Context, c *ownCase) iter.Seq2[*corev1.ConfigMap, error] {
				return c.cms.Cached().OwnedBy(ctx, types.UID("owner"))
			},
		},
		"labels of a narrower handle": {
			labeledApp("web"), labeledApp("db"),
			func(ctx context.Context, c *ownCase) iter.Seq2[*corev1.ConfigMap, error] {
				return c.cms.Labeled("app=web").Cached().All(ctx)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				c.write("b", "in", test.before)
				wantLines(c.T, "before", namesAndNotes(c.T, test.read(c.Context(), c)), "b in")
				c.elsewhere()
				c.write("b", "out", test.after)
				wantLines(c.T, "after it left", namesAndNotes(c.T, test.read(c.Context(), c)))
				c.took(ownWriteWait)
				c.write("b", "in again", test.before)
				wantLines(c.T, "after it came back", namesAndNotes(c.T, test.read(c.Context(), c)), "b in again")
				c.took(ownWriteWait)
				c.write("b", "out", test.after)
				c.write("a", "other") // it was never there, and is not now
				go func() {
					time.Sleep(ownWriteWait / 2)
					c.s.release()
				}()
				wantLines(c.T, "when the watch shows it", namesAndNotes(c.T, test.read(c.Context(), c)))
				c.took(ownWriteWait / 2)
			})
		})
	}
}
