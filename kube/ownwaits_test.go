package kube

import (
	"context"
	"errors"
	"net/http/httptrace"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// readsItself reads an object, for a minute at most. It counts the reads that would have waited for
// their own caller.
type readsItself struct {
	*ownCase
	on           bool
	failed, hung int
}

func (r *readsItself) read() {
	if !r.on {
		return
	}
	r.on = false // one read is enough
	defer func() { r.on = true }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := r.cms.Cached().Get(ctx, "a")
	switch {
	case errors.Is(err, errWaitsForItself):
		r.failed++
	case errors.Is(err, context.DeadlineExceeded):
		r.hung++
	}
}

func (r *readsItself) check() {
	r.Helper()
	r.on = false
	if r.failed == 0 || r.hung > 0 {
		r.Errorf("%d reads failed because they would wait for themselves, and %d hung", r.failed, r.hung)
	}
}

// The function of an index reads the object about which the server is being asked.
func TestIndexReadsWhatIsAskedFor(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		r := &readsItself{ownCase: c}
		index := IndexBy(c.cms, func(o *corev1.ConfigMap) []string {
			r.read()
			return []string{noteOfConfigMap(o)}
		})
		if _, err := index.Keys(c.Context()); err != nil {
			c.Fatal(err)
		}
		r.on = true
		c.elsewhere()
		c.write("a", "two")
		c.wantNote("a", "two")
		r.check()
	})
}

// The trace of a reader reads the object about which the reader asks the server, or the objects that
// it lists.
func TestTraceReadsWhatIsAskedFor(t *testing.T) {
	for name, doubt := range map[string]func(c *ownCase){
		"an object":   func(c *ownCase) { c.cms.handle.client.stores.unsure(c.cms.handle.kind, key("a")) },
		"all objects": func(c *ownCase) { c.cms.handle.client.stores.unsureOfAll(c.cms.handle.kind, "default") },
	} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				r := &readsItself{ownCase: c, on: true}
				doubt(c)
				trace := &httptrace.ClientTrace{WroteHeaders: r.read}
				o, err := c.cms.Cached().Get(httptrace.WithClientTrace(c.Context(), trace), "a")
				if err != nil || o.UID == types.UID("") {
					c.Errorf("%v, %v", o, err)
				}
				r.check()
			})
		})
	}
}
