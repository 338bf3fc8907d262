package crd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Install applies definitions and returns when the API server serves their kinds, or with
// an error when ctx ends. Its counterpart in controller-runtime is envtest.InstallCRDs.
//
// Install does not apply a definition that stored objects may not fit. The error wraps an
// [IncompatibleError] that has each reason. If another definition already has one of
// the names, that is an error too.
//
// A program that was rolled back, or an old replica that starts again, finds the definition of
// a later release. Install leaves that definition unchanged and returns no error if the later
// definition accepts and keeps every value that the older one does, and has its versions,
// subresources and selectable fields. The client's logger gets a line about that.
// Install knows the later definition by an annotation in which it notes the definitions that
// it has applied. A definition that was installed in another way, such as by kubectl apply,
// has no such annotation: then an older definition is an IncompatibleError if it has less.
//
// It needs the verbs get, list, watch, create and patch on customresourcedefinitions. If
// several API servers run, a server that did not answer Install may serve the kinds a
// moment later.
func Install(ctx context.Context, client *kube.Client, defs ...*Definition) error {
	return install(ctx, client, false, defs)
}

// Replace works like [Install], and also applies a definition that stored objects may not
// fit, or that is older than the installed one. The API server then reads such objects with
// the fields that the definition has, and refuses their next write if they are not valid. Its
// counterpart in controller-runtime is envtest.InstallCRDs, which compares nothing.
func Replace(ctx context.Context, client *kube.Client, defs ...*Definition) error {
	return install(ctx, client, true, defs)
}

func install(ctx context.Context, client *kube.Client, force bool, defs []*Definition) error {
	for _, d := range defs {
		if d.err != nil {
			return d.err
		}
	}
	definitions := kube.ViewOf[Definition](client, kind)
	if err := definitions.Err(); err != nil {
		return err // there is no client
	}
	i := installer{definitions, force, cmp.Or(client.Config().Logger, slog.Default())}
	// Install compares all definitions before it applies the first, and applies all before it
	// waits for the first.
	before, there, stays := make([]*Definition, len(defs)), make([]*Definition, len(defs)), make([]bool, len(defs))
	for n, d := range defs {
		var err error
		if before[n], stays[n], err = i.compared(ctx, d); err != nil {
			return fmt.Errorf("install %s: %w", d.Name, err)
		}
	}
	for n, d := range defs {
		var err error
		if before[n], there[n], err = i.apply(ctx, d, before[n], stays[n]); err != nil {
			return fmt.Errorf("install %s: %w", d.Name, err)
		}
	}
	for n, d := range defs {
		heard := i.waits(d, "the server to establish it")
		err := established(ctx, definitions, there[n], before[n])
		if heard(); err == nil {
			heard = i.waits(d, "the server to serve its versions")
			err = served(ctx, client, d)
			heard()
		}
		if err != nil {
			return fmt.Errorf("install %s: %w", d.Name, err)
		}
	}
	return nil
}

// installer applies definitions.
type installer struct {
	definitions kube.View[Definition]
	force       bool // also if stored objects may not fit
	log         *slog.Logger
}

// waits begins a wait, which is logged if it takes long. The caller ends it.
func (i installer) waits(d *Definition, what string) (end func() bool) {
	return time.AfterFunc(patience, func() {
		i.log.Info("the installation of a definition waits", "definition", d.Name, "for", what)
	}).Stop
}

// apply applies a definition that was compared with the installed one, before. It does not if before
// stays. It returns the previous definition and the one that is now installed.
func (i installer) apply(ctx context.Context, d, before *Definition, stays bool) (last, now *Definition, err error) {
	for try := 1; ; try++ {
		switch {
		case stays:
			i.log.Info("a newer definition is installed and stays unchanged", "definition", d.Name)
			return before, before, nil
		case before != nil && before.DeletionTimestamp != nil:
			// The deletion removes the objects too, and would remove a definition applied
			// now.
			i.log.Info("the definition is being deleted and will be installed after the deletion", "definition", d.Name)
			err = i.definitions.UntilGone(ctx, d.Name)
		default:
			var patch []byte
			if before != nil && d.pairs != nil {
				patch = d.pairs.readdress(before, d)
			}
			if patch != nil {
				before, err = i.definitions.Patch(ctx, d.Name, types.MergePatchType, patch)
			}
			if err == nil {
				patch, err = d.patch(before)
			}
			if err == nil {
				_, err = i.definitions.Patch(ctx, d.Name, types.ApplyYAMLPatchType, patch)
			}
			if !changed(err) || try == maxConflicts {
				return before, d, err
			}
			err = wait(ctx, time.Duration(try)*10*time.Millisecond, err)
		}
		if err == nil {
			before, stays, err = i.compared(ctx, d)
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// changed reports whether somebody has changed or created the definition since it was compared.
func changed(err error) bool {
	_, unversioned := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return apierrors.IsConflict(err) || unversioned && strings.Contains(err.Error(), "metadata.resourceVersion")
}

// maxConflicts is how often a definition may have changed between its comparison and its apply. The
// server changes the status of a new one some times in its first second.
const maxConflicts = 20

// wait waits, or returns an error that wraps err when the context ends.
func wait(ctx context.Context, d time.Duration, err error) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case <-time.After(d):
		return nil
	}
}

// compared returns the installed definition, nil if there is none. It returns an error if stored
// objects may not fit d. If a later definition is installed that serves the programs of d, it
// stays.
func (i installer) compared(ctx context.Context, d *Definition) (before *Definition, stays bool, err error) {
	if d.pairs != nil {
		if err = d.pairs.ready(d, i.log); err != nil {
			return nil, false, err
		}
	}
	before, err = i.definitions.Get(ctx, d.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil || i.force || before.DeletionTimestamp != nil:
		return before, false, err
	}
	if stays, err = before.supersedes(d); err != nil || stays {
		return before, stays, err
	}
	if breaks := Compare(before, d); len(breaks) > 0 {
		return nil, false, &IncompatibleError{Reasons: breaks, served: before.serves(d)}
	}
	return before, false, nil
}

// patch returns the apply of a definition that replaces another one, or none if that is nil. The server
// refuses it if the other one has changed, or is there: a later release may have come between.
func (d *Definition) patch(before *Definition) ([]byte, error) {
	wanted, err := d.noted(before)
	if err != nil {
		return nil, err
	}
	meta := map[string]any{"name": d.Name, "annotations": wanted.Annotations}
	if len(d.Labels) > 0 {
		meta["labels"] = d.Labels
	}
	// The server creates an object of version 0, and refuses it as an update.
	meta["resourceVersion"] = "0"
	if before != nil {
		meta["uid"], meta["resourceVersion"] = before.UID, before.ResourceVersion
	}
	gvk := d.GVK()
	patch, err := json.Marshal(map[string]any{
		"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": meta, "spec": wanted.Spec,
	})
	if err != nil {
		return nil, fmt.Errorf("encode definition: %w", err)
	}
	return patch, nil
}

// patience is the time for which a refusal of other names counts as stale: the server may
// not have checked the wanted names yet. A wait that takes longer is logged.
const patience = 5 * time.Second

// established waits until the server has accepted the names of a definition and reports
// that it serves the kind.
func established(ctx context.Context, definitions kube.View[Definition], d, before *Definition) error {
	if before != nil && !sameNames(&before.Spec.Names, &d.Spec.Names) {
		if status, stale := before.Status.condition("NamesAccepted"); status == metav1.ConditionFalse {
			short, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			if err := accepted(short, definitions, d, stale); err == nil || short.Err() == nil {
				return err
			}
		}
	}
	return accepted(ctx, definitions, d, "")
}

// accepted waits for an answer about the names that is not the stale refusal.
func accepted(ctx context.Context, definitions kube.View[Definition], d *Definition, stale string) error {
	var state, refusal string
	var same bool
	_, err := definitions.Until(ctx, d.Name, func(now *Definition) bool {
		established, words := now.Status.condition("Established")
		names, why := now.Status.condition("NamesAccepted")
		state, refusal, same = words, "", sameNames(&now.Spec.Names, &now.Status.AcceptedNames)
		switch {
		case same && established == metav1.ConditionTrue:
			return true // the condition may be of names that were given up
		case names == metav1.ConditionFalse && (same || why != stale):
			refusal = why
		}
		return refusal != ""
	})
	switch {
	case err != nil:
		return fmt.Errorf("wait until it is established, %s: %w", state, err)
	case refusal != "" && same:
		return fmt.Errorf("the server does not establish a definition that has given up names in use: "+
			"delete it, it has no objects yet, and install it again: %s", refusal)
	case refusal != "":
		return fmt.Errorf("names are in use: %s", refusal)
	}
	return nil
}

func sameNames(a, b *Names) bool {
	return a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}

// served waits until a kind that the server reports as served can be used. For a moment
// discovery does not list it, its path is not found, or its storage is not ready. If a webhook
// converts the objects, the storage may not get ready before this program serves that webhook:
// then it is enough that the server knows the kind.
func served(ctx context.Context, client *kube.Client, d *Definition) error {
	for _, v := range d.Spec.Versions {
		if !v.Served {
			continue
		}
		gvk := kube.GVK{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}
		objects := kube.ViewOf[metav1.PartialObjectMetadata](client, kube.Kind{GVK: gvk})
		if err := answers(ctx, objects, d.converts()); err != nil {
			return fmt.Errorf("wait until %s is served: %w", v.Name, err)
		}
	}
	return nil
}

func answers(ctx context.Context, objects kube.View[metav1.PartialObjectMetadata], converted bool) error {
	// No object has this name, so the server sends none.
	objects = objects.Fielded("metadata.name=-")
	for {
		var err error
		asking, cancel := context.WithTimeout(ctx, patience)
		for _, err = range objects.List(asking) {
			break
		}
		late := asking.Err() != nil
		cancel()
		busy := apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
		switch {
		case err == nil, converted && (busy || apierrors.IsInternalError(err)):
			return nil
		case apierrors.IsForbidden(err):
			// Discovery lists the kind. Whether this client may read it is another
			// question.
			return nil
		case !errors.Is(err, kube.ErrNotServed) && !busy && !late:
			return err
		}
		if err := wait(ctx, 100*time.Millisecond, err); err != nil {
			return err
		}
	}
}
