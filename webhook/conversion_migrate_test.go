package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// A version changes in the documented order, and the old one is gone at the end. Every object is there, and
// its owners too.
func TestVersionChangeOnServer(t *testing.T) {
	h := hookedServer(t)
	first := crd.Of[timerV1](optionsOf(h.group, "v1"))
	h.install(t, first)
	const n = 12
	for i := range n {
		o := &timerV1{}
		o.Name, o.Spec.Cron = fmt.Sprint("a", i), fmt.Sprint(i)
		_, err := h.v1().With(kube.WriteOptions{FieldManager: "user"}).Apply(briefly(t), o)
		ok(t, err)
	}
	d := h.definition(t, false)
	h.serve(t, d)

	// The first release converts, and stores the old version.
	both := h.direct(t, crd.Join(first, crd.Converts(crd.Of[timer](optionsOf(h.group, "v2")), fromV1, toV2)))
	ok(t, both.Err())
	h.install(t, both)
	if err := crd.Migrate(briefly(t), h.client, d, crd.MigrateOptions{}); err == nil ||
		!strings.Contains(err.Error(), "objects are stored in v1 and not in v2") {
		t.Errorf("before the definition is installed: %v", err)
	}
	// The second one stores the new version, and migrates. It ends in the middle, and starts over.
	h.install(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := crd.Migrate(ctx, h.client, d, crd.MigrateOptions{Rate: 2}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("killed: %v", err)
	}
	if got := h.stored(t); !slices.Equal(got, []string{"v1", "v2"}) {
		t.Errorf("stored versions after a migration that was killed: %v", got)
	}
	h.migrate(t, d)
	before := h.calls.Load()
	h.migrate(t, d)
	if calls := h.calls.Load() - before; calls > 0 {
		t.Errorf("a second migration: %d conversions", calls)
	}
	// The third one does not serve the old version.
	o := optionsOf(h.group, "v1")
	o.NotServed = true
	third := h.direct(t, crd.Join(crd.Of[timer](optionsOf(h.group, "v2")), crd.Converts(crd.Of[timerV1](o), toV2, fromV1)))
	ok(t, third.Err())
	h.install(t, third)
	h.migrate(t, third)
	// The last one does not have it. Nobody needs the hook any more.
	h.failing.Store(true)
	h.install(t, crd.Of[timer](optionsOf(h.group, "v2")))
	seen := 0
	for o, err := range h.v2().List(briefly(t)) {
		ok(t, err)
		if seen++; o.Name != "a"+o.Spec.Schedule {
			t.Errorf("%s: %+v", o.Name, o.Spec)
		}
		for _, e := range o.ManagedFields {
			if e.APIVersion != h.group+"/v2" || e.Manager != "user" {
				t.Errorf("%s: %s owns fields in %s", o.Name, e.Manager, e.APIVersion)
			}
		}
	}
	if seen != n {
		t.Errorf("%d objects", seen)
	}
	users := h.v2().With(kube.WriteOptions{FieldManager: "user"})
	_, err := users.Patch(briefly(t), "a1", types.ApplyYAMLPatchType, []byte(`{"apiVersion":"`+h.group+
		`/v2","kind":"Timer","metadata":{"name":"a1"},"spec":{"schedule":"7"}}`))
	ok(t, err)
}

// stored returns the versions in which objects may be stored.
func (h *hooked) stored(t *testing.T) []string {
	t.Helper()
	live, err := kube.For[crd.Definition](h.client).Get(briefly(t), "timers."+h.group)
	ok(t, err)
	return live.Status.StoredVersions
}

func (h *hooked) migrate(t *testing.T, d *crd.Definition) {
	t.Helper()
	ok(t, crd.Migrate(briefly(t), h.client, d, crd.MigrateOptions{Rate: 500}))
	if got := h.stored(t); !slices.Equal(got, []string{"v2"}) {
		t.Errorf("stored versions after a migration: %v", got)
	}
}
