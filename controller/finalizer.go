package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// Finalizers are changed by a JSON patch that tests the object's uid and
// resource version: a list that is applied, or updated from an old copy, would
// remove others' finalizers or bring them back.

// finalizerTries bounds how often a change of the finalizers starts over because
// the object was not what it was taken for.
const finalizerTries = 5

// holds reports that an object has the controller's finalizer.
func (e *engine[T]) holds(o metav1.Object) bool {
	return slices.Contains(o.GetFinalizers(), e.Finalizer)
}

// hold adds the finalizer and returns the object with it. It returns nil if the
// object is gone, and an object without if its deletion has begun.
func (e *engine[T]) hold(ctx context.Context, o *T) (*T, error) {
	held, err := e.finalize(ctx, o, func(acc metav1.Object) []patchStep {
		switch {
		case e.holds(acc), acc.GetDeletionTimestamp() != nil:
			return nil
		case len(acc.GetFinalizers()) == 0:
			return []patchStep{{Op: "add", Path: finalizersPath, Value: []string{e.Finalizer}}}
		}
		return []patchStep{{Op: "add", Path: finalizersPath + "/-", Value: e.Finalizer}}
	})
	if err != nil {
		return nil, fmt.Errorf("add finalizer %s: %w", e.Finalizer, err)
	}
	return held, nil
}

// release removes the finalizer.
func (e *engine[T]) release(ctx context.Context, o *T) error {
	_, err := e.finalize(ctx, o, func(acc metav1.Object) []patchStep {
		at := slices.Index(acc.GetFinalizers(), e.Finalizer)
		if at < 0 {
			return nil
		}
		path := fmt.Sprintf("%s/%d", finalizersPath, at)
		return []patchStep{{Op: "test", Path: path, Value: e.Finalizer}, {Op: "remove", Path: path}}
	})
	if err != nil {
		return fmt.Errorf("remove finalizer %s: %w", e.Finalizer, err)
	}
	return nil
}

const finalizersPath = "/metadata/finalizers"

// patchStep is an operation of a JSON patch (RFC 6902).
type patchStep struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// finalize patches an object as change says, which returns nothing if there is
// nothing to do. If the object is another by now it is read and change is asked
// again. It returns the object as the server has it, nil if it is gone.
func (e *engine[T]) finalize(ctx context.Context, o *T, change func(metav1.Object) []patchStep) (*T, error) {
	view, _ := writer(e.For)
	uid, key := meta(o).GetUID(), kube.KeyOf(meta(o))
	if key.Namespace != "" {
		view = view.In(key.Namespace)
	}
	for try := 1; ; try++ {
		steps := change(meta(o))
		if len(steps) == 0 {
			return o, nil
		}
		patch, err := json.Marshal(append([]patchStep{
			{Op: "test", Path: "/metadata/uid", Value: uid},
			{Op: "test", Path: "/metadata/resourceVersion", Value: meta(o).GetResourceVersion()},
		}, steps...))
		if err != nil {
			return nil, fmt.Errorf("encode patch: %w", err)
		}
		patched, err := view.Patch(ctx, key.Name, types.JSONPatchType, patch)
		switch {
		case err == nil:
			return patched, nil
		case apierrors.IsNotFound(err):
			return nil, nil
		case try == finalizerTries, !notAsTested(err):
			return nil, err
		}
		o, err = view.Get(ctx, key.Name)
		switch {
		case apierrors.IsNotFound(err), err == nil && meta(o).GetUID() != uid:
			return nil, nil
		case err != nil:
			return nil, err
		}
	}
}

// notAsTested reports that the object may have been another than the patch
// was for: the server answers 422 to a test that fails, and to a path that is not
// there.
func notAsTested(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsConflict(err) || errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonInvalid
}
