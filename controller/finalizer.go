package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/internal/finalizers"
	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube"
)

// Finalizers are changed by a JSON patch that tests the object's uid and resourceVersion.
// An apply or an update from an old copy would remove others' finalizers or bring them
// back.

// finalizerTries bounds how often a change of the finalizers starts over because the
// object was not as expected.
const finalizerTries = 5

// finalizers returns the finalizers that the controller removes at the end of a
// cleanup.
func (c Controller[T]) finalizers() []string {
	if c.Cleanup == nil {
		return c.FormerFinalizers
	}
	return append([]string{c.Finalizer}, c.FormerFinalizers...)
}

// checkFinalizers returns why a name cannot be that of a finalizer. API servers accept
// qualified names. For most built-in kinds the name needs a slash. Two names have a
// meaning of their own for API servers.
func (c Controller[T]) checkFinalizers() error {
	for _, name := range c.finalizers() {
		if wrong := validation.IsQualifiedName(name); len(wrong) > 0 {
			return fmt.Errorf("%q cannot name a finalizer: %s", name, strings.Join(wrong, ", "))
		}
		if finalizers.OfCollector(name) {
			return fmt.Errorf("%q cannot name a finalizer: the garbage collector removes it", name)
		}
	}
	kind := c.For.ReadOnly().Kind()
	builtIn := !strings.Contains(kind.Group, ".") // the groups of custom kinds have a dot
	if c.Cleanup != nil && builtIn && !strings.Contains(c.Finalizer, "/") {
		return fmt.Errorf("%q cannot name a finalizer of %s, which is built in: it must be like example.com/echo",
			c.Finalizer, kind.Kind)
	}
	return nil
}

// finalizing is a finalizer that a controller removes from objects of a kind.
type finalizing struct {
	host string // of the API server
	kind schema.GroupKind
	name string
}

// finalizes implements runner. All versions of a kind have the same objects. A view's
// objects and a narrower handle's objects are also objects of the kind.
func (e *engine[T]) finalizes() (all []finalizing) {
	host := e.client().Config().Rest.Host
	for _, name := range e.finalizers() {
		all = append(all, finalizing{host, e.gvk.GroupKind(), name})
	}
	return all
}

// inCommon returns an error about each finalizer that two controllers would remove: the
// first to finish would end the other's cleanup.
func inCommon(runners []runner) error {
	owners := make(map[finalizing]string)
	var failed []error
	for _, r := range runners {
		for _, f := range r.finalizes() {
			if owner, taken := owners[f]; taken && owner != r.name() {
				failed = append(failed, fmt.Errorf("configure controller %q: controller %q uses the same finalizer %q of %s",
					r.name(), owner, f.name, f.kind.Kind))
			}
			owners[f] = r.name()
		}
	}
	return errors.Join(failed...)
}

// holds reports that an object has a finalizer of the controller.
func (e *engine[T]) holds(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetFinalizers(), e.removes)
}

// removes reports that a finalizer is one of the controller's.
func (e *engine[T]) removes(name string) bool {
	return e.Cleanup != nil && name == e.Finalizer || slices.Contains(e.FormerFinalizers, name)
}

// held returns the finalizers that an object should have while it is reconciled. The
// controller's own finalizer takes the place of former ones.
func (e *engine[T]) held(finalizers []string) (should []string) {
	has := e.Cleanup == nil // without Cleanup there is none to have
	for _, f := range finalizers {
		switch {
		case !e.removes(f):
			should = append(should, f)
		case !has:
			should, has = append(should, e.Finalizer), true
		}
	}
	if !has {
		should = append(should, e.Finalizer)
	}
	return should
}

// ready reports that the object's finalizers are as a reconcile needs them.
func (e *engine[T]) ready(o metav1.Object) bool {
	if e.Cleanup == nil && len(e.FormerFinalizers) == 0 {
		return true
	}
	return slices.Equal(o.GetFinalizers(), e.held(o.GetFinalizers()))
}

// hold adds the finalizer, and removes former ones. It returns the object with the
// finalizer, nil if the object is gone, or the object without it if its deletion has
// begun.
func (e *engine[T]) hold(ctx context.Context, o *T) (*T, error) {
	held, err := e.finalize(ctx, o, func(acc metav1.Object) []string {
		if acc.GetDeletionTimestamp() != nil {
			return acc.GetFinalizers()
		}
		return e.held(acc.GetFinalizers())
	})
	if err != nil {
		return nil, fmt.Errorf("add finalizer %s: %w", e.Finalizer, err)
	}
	return held, nil
}

// release removes the finalizer, and former ones with it. Unseen is not nil if the server
// says that the object is gone.
func (e *engine[T]) release(ctx context.Context, o *T) (unseen, err error) {
	released, err := e.finalize(ctx, o, func(acc metav1.Object) []string {
		return slices.DeleteFunc(slices.Clone(acc.GetFinalizers()), e.removes)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("remove finalizer %s: %w", e.Finalizer, err)
	case released == nil:
		return errNoObject, nil
	}
	return nil, nil
}

// errNoObject says that the server has no such object, at least at the replica that was asked.
var errNoObject = errors.New("the server has no such object")

const finalizersPath = "/metadata/finalizers"

// patchStep is an operation of a JSON patch (RFC 6902).
type patchStep struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// finalize gives an object the finalizers that should returns. If the object has changed,
// finalize reads it and calls should again. It returns the object as the server has it,
// nil if the object is gone.
func (e *engine[T]) finalize(ctx context.Context, o *T, should func(metav1.Object) []string) (*T, error) {
	view, _ := writer(e.For)
	uid, key := meta(o).GetUID(), kube.KeyOf(meta(o))
	if key.Namespace != "" {
		view = view.In(key.Namespace)
	}
	for try := 1; ; try++ {
		finalizers := should(meta(o))
		if slices.Equal(finalizers, meta(o).GetFinalizers()) {
			return o, nil
		}
		patch, err := json.Marshal([]patchStep{
			{Op: "test", Path: "/metadata/uid", Value: uid},
			{Op: "test", Path: "/metadata/resourceVersion", Value: meta(o).GetResourceVersion()},
			{Op: "add", Path: finalizersPath, Value: append([]string{}, finalizers...)},
		})
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
		is, lost := lookUp(ctx, e.For, key)
		switch {
		case lost != nil || is == nil || meta(is).GetUID() != uid:
			return nil, lost
		case isEarlier(meta(is), meta(o)):
			return nil, err // the list came from a replica that is behind
		}
		o = is
	}
}

// isEarlier reports that a state of an object is from before another one. It returns false
// if it does not know.
func isEarlier(a, b metav1.Object) bool {
	if b.GetDeletionTimestamp() != nil && a.GetDeletionTimestamp() == nil {
		return true // a deletion is not taken back
	}
	return versions.Older(a.GetResourceVersion(), b.GetResourceVersion())
}

// notAsTested reports that the patch may have met another state of the object. The server
// answers 422 to a test that fails, and to a path that is not there.
func notAsTested(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsConflict(err) || errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonInvalid
}
