package kube

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testLogger drops the troubles of stores, because there are many of them here.
func testLogger(testing.TB) *slog.Logger { return slog.New(slog.DiscardHandler) }

// owner writes objects through the proxy and reads each back from a store at once. Nobody
// else writes these objects.
type owner struct {
	c                   *chaos
	cms                 Resource[corev1.ConfigMap]
	writes, reads, lost int
}

func newOwner(c *chaos) *owner {
	return &owner{c: c, cms: For[corev1.ConfigMap](c.shaken).In("chaos-own")}
}

func (w *owner) run(ctx context.Context) {
	store := StoreOf(ctx, w.cms)
	defer func() { <-store.Done() }()
	// have holds the known objects. The value is nil if there is no such object. The name
	// is missing if that is not known.
	have := make(map[string]*corev1.ConfigMap)
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("own%d", n%7)
		// If a write is stuck, it is given up, and its answer is lost.
		writing, cancel := context.WithTimeout(ctx, 3*time.Second)
		is, err := w.write(writing, have, name, n)
		cancel()
		w.writes++
		if err != nil {
			// The server may still execute the write, or it may never do so.
			delete(have, name)
			w.lost++
			_ = sleep(ctx, 50*time.Millisecond)
			continue
		}
		have[name] = is
		for name, is := range have {
			w.read(ctx, store, name, is)
		}
	}
}

// write writes on top of the known object and of no other. So a write with a lost answer
// cannot be executed after the next one.
func (w *owner) write(
	ctx context.Context, have map[string]*corev1.ConfigMap, name string, n int,
) (*corev1.ConfigMap, error) {
	was, known := have[name]
	if !known {
		var err error
		if was, err = w.cms.Get(ctx, name); apierrors.IsNotFound(err) {
			was = nil
		} else if err != nil {
			return nil, err
		}
	}
	switch {
	case was == nil:
		return w.cms.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name},
			Data: map[string]string{"note": fmt.Sprintf("%s|%d", name, n)}})
	case n%5 == 4:
		return nil, w.cms.Delete(ctx, name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &was.UID, ResourceVersion: &was.ResourceVersion}})
	}
	change := was.DeepCopy()
	change.Data["note"] = fmt.Sprintf("%s|%d", name, n)
	return w.cms.Update(ctx, change)
}

func (w *owner) read(ctx context.Context, store *Store[corev1.ConfigMap], name string, is *corev1.ConfigMap) {
	want := ""
	if is != nil {
		want = is.Data["note"]
	}
	reading, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	o, err := store.Get(reading, Key{"chaos-own", name})
	switch {
	case apierrors.IsNotFound(err):
		if want != "" {
			w.c.Errorf("own write %q is not found", want)
		}
	case err != nil:
		return // the read had to ask the server, and the server was not there
	case o.Data["note"] != want:
		w.c.Errorf("own write: %q is read as %q", want, o.Data["note"])
	}
	w.reads++
}
