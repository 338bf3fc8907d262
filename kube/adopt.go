package kube

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// ErrTaken is wrapped by the error of [View.Ensure] when an object of that name is
// there already and belongs to somebody else.
var ErrTaken = errors.New("there is one of that name already")

// takes returns why an object that names its controller may not take the place of
// the one that the table has: that has another controller, or none and lacks one
// of the labels by which it would be known as such a child.
func (t *table) takes(ctx context.Context, key Key, o object) error {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil {
		return nil
	}
	e, _, live, err := t.get(ctx, key)
	if err != nil || live || e == nil {
		return err // the server refuses a second controller
	}
	is := controllerOf(e)
	switch {
	case is != nil && is.UID == owner.UID:
		return nil
	case is != nil && is.GVK.Kind == owner.Kind && is.Name == owner.Name:
		return fmt.Errorf("%w: it belongs to an earlier %s %s, after which it goes", ErrTaken, is.GVK.Kind, is.Name)
	case is != nil:
		return fmt.Errorf("%w: it belongs to %s %s", ErrTaken, is.GVK.Kind, is.Name)
	}
	own := labels.Set(o.GetLabels())
	if len(own) > 0 && labels.SelectorFromSet(own).Matches(e.Labels()) {
		return nil
	}
	return fmt.Errorf("%w, and it has no owner that controls it: delete it or, to have it taken over, give it the labels %q", ErrTaken, own)
}

// controllerOf returns the owner reference of an object's controller, nil if it has none.
func controllerOf(e *entry) *wire.Owner {
	for o := range e.Owners() {
		if o.Controller {
			return &o
		}
	}
	return nil
}
