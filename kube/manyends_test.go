package kube

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Very many objects end at once, which a loop has not been shown. That costs as much as the objects.
func TestManyObjectsEndAtOnce(t *testing.T) {
	for name, own := range map[string]bool{"of this process": true, "of others": false} {
		t.Run(name, func(t *testing.T) {
			const many = 100_000
			table := newTable(For[corev1.ConfigMap](newAPIServer().client(t)).handle, nil)
			loop := &subscription{table: table, wake: make(chan struct{}, 1)}
			table.followers.add(loop)
			last := wire.MetadataEntry(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "u"}})
			start := time.Now()
			table.write(func(d *draft) {
				for i := range many {
					d.ends = append(d.ends, end{keyed{Key{"default", strconv.Itoa(i)}, last}, own})
				}
				d.changed = true
			})
			for i := range endsKept + 100 { // others end one by one after them
				table.write(func(d *draft) {
					d.ends, d.changed = []end{{keyed{Key{"default", strconv.Itoa(i)}, last}, false}}, true
				})
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("it took %s", d)
			}
			_, ends := table.followers.next(loop)
			kept := len(ends)
			if own {
				kept -= many
			}
			if kept != endsKept {
				t.Errorf("%d ends are kept, want %d", kept, endsKept)
			}
		})
	}
}
