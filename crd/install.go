package crd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pintle-go/pintle/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Installer installs definitions. The zero value is what [Install] uses.
type Installer struct {
	// FieldManager owns what is applied. Default: the client's.
	FieldManager string
	// Force applies a definition also if objects that are stored may not fit
	// it, or if it is older than what is there.
	Force bool
	// Logger gets which definitions were left as they are. Default:
	// slog.Default().
	Logger *slog.Logger
}

// Install applies definitions and returns when the server serves their kinds.
// It waits as long as ctx lets it.
//
// A definition that objects in the cluster may not fit is not applied: the
// error wraps an [IncompatibleError] that names each reason. Names that
// another definition has already are an error too ([ErrNames]).
//
// A program that was rolled back finds a definition that a later release of it has
// installed. That is left as it is, and no error, if it takes in and keeps all that
// the older one does: the later one is known by an annotation, in which Install
// notes what it has applied. A definition that came by other ways, as kubectl apply,
// has none: then an older one is an IncompatibleError if it has less.
//
// It needs the verbs get, list, watch, create and patch on
// customresourcedefinitions. Where several API servers run, another one than
// that which answered may take a moment longer.
func Install(ctx context.Context, client *kube.Client, defs ...*Definition) error {
	return Installer{}.Install(ctx, client, defs...)
}

// ErrNames is wrapped when another definition has a name of this one.
var ErrNames = errors.New("names are taken")

// Install is [Install] in the way that i says.
func (i Installer) Install(ctx context.Context, client *kube.Client, defs ...*Definition) error {
	if i.Logger == nil {
		i.Logger = slog.Default()
	}
	definitions := kube.ViewOfKind[Definition](client, kind).With(kube.WriteOptions{FieldManager: i.FieldManager})
	// All are applied before the first is waited for.
	before, there := make([]*Definition, len(defs)), make([]*Definition, len(defs))
	for n, d := range defs {
		var err error
		if before[n], there[n], err = i.apply(ctx, definitions, d); err != nil {
			return fmt.Errorf("install %s: %w", d.Name, err)
		}
	}
	for n, d := range defs {
		if err := established(ctx, definitions, there[n], before[n]); err != nil {
			return fmt.Errorf("install %s: %w", d.Name, err)
		}
		if err := served(ctx, client, d); err != nil {
			return fmt.Errorf("install %s: %w", d.Name, err)
		}
	}
	return nil
}

// apply applies a definition unless it breaks what is there, or that has come
// after it. It returns what was there before, and what is to be there now.
func (i Installer) apply(ctx context.Context, definitions kube.View[Definition], d *Definition) (before, now *Definition, err error) {
	before, err = definitions.Get(ctx, d.Name)
	switch {
	case apierrors.IsNotFound(err):
		before = nil
	case err != nil:
		return nil, nil, err
	case before.DeletionTimestamp != nil:
		// It takes its objects with it; what is applied now would go too.
		i.Logger.Info("the definition is being deleted: it is installed when that is done", "definition", d.Name)
		if err := definitions.UntilGone(ctx, d.Name); err != nil {
			return nil, nil, err
		}
		before = nil
	case !i.Force:
		// One that loses nothing is applied also if it is older.
		breaks := Compare(before, d)
		if len(breaks) == 0 {
			break
		}
		newer, err := before.supersedes(d)
		switch {
		case err != nil:
			return nil, nil, err
		case newer:
			i.Logger.Info("a later definition is installed: it is left as it is", "definition", d.Name)
			return before, before, nil
		}
		return nil, nil, &IncompatibleError{Name: d.Name, Breaks: breaks, Served: before.serves(d)}
	}
	wanted, err := d.noted(before)
	if err != nil {
		return nil, nil, err
	}
	_, err = definitions.Apply(ctx, wanted)
	return before, d, err
}

// patience is how long a refusal of other names than those wanted is taken for
// one that the server has not looked at again.
const patience = 5 * time.Second

// established waits until the server has accepted the names of a definition and
// says that it serves it.
func established(ctx context.Context, definitions kube.View[Definition], d, before *Definition) error {
	var stale Condition
	if before != nil && !sameNames(before.Spec.Names, d.Spec.Names) {
		stale = before.Status.condition("NamesAccepted")
	}
	if stale.Status == "False" {
		short, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := accepted(short, definitions, d, stale); err == nil || short.Err() == nil {
			return err
		}
	}
	return accepted(ctx, definitions, d, Condition{})
}

// accepted waits for an answer about names other than the stale one.
func accepted(ctx context.Context, definitions kube.View[Definition], d *Definition, stale Condition) error {
	var seen, refused Condition
	_, err := definitions.Until(ctx, d.Name, func(now *Definition) bool {
		// The server leaves the condition as it is when names that it refused
		// are given up: the names themselves decide.
		seen, refused = now.Status.condition("Established"), Condition{}
		if sameNames(now.Spec.Names, now.Status.AcceptedNames) {
			return seen.Status == "True"
		}
		if c := now.Status.condition("NamesAccepted"); c.Status == "False" && c != stale {
			refused = c
		}
		return refused.Status != ""
	})
	switch {
	case err != nil:
		return fmt.Errorf("wait until it is established (%s %s): %w", seen.Reason, seen.Message, err)
	case refused.Status != "":
		return fmt.Errorf("%w: %s (%s)", ErrNames, refused.Message, refused.Reason)
	}
	return nil
}

func sameNames(a, b Names) bool {
	return a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}

// served waits out the moment in which a kind is said to be served and is not
// yet: discovery does not list it, its path is not found, or its storage is
// being made.
func served(ctx context.Context, client *kube.Client, d *Definition) error {
	for _, v := range d.Spec.Versions {
		if !v.Served {
			continue
		}
		gvk := kube.GVK{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}
		if err := answers(ctx, kube.ViewOfKind[metav1.PartialObjectMetadata](client, kube.Kind{GVK: gvk})); err != nil {
			return fmt.Errorf("wait until %s is served: %w", v.Name, err)
		}
	}
	return nil
}

func answers(ctx context.Context, objects kube.View[metav1.PartialObjectMetadata]) error {
	// No object has this name; none is sent.
	objects = objects.Fielded("metadata.name=-")
	for {
		var err error
		for _, err = range objects.List(ctx) {
			break
		}
		switch {
		case err == nil:
			return nil
		case apierrors.IsForbidden(err):
			// Discovery lists it. Whether it can be read is another matter.
			return nil
		case !errors.Is(err, kube.ErrNotServed) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err):
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
