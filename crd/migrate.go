package crd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MigrateOptions describe a migration. The zero value is right for most.
type MigrateOptions struct {
	// Rate is how many objects are written in a second, by default 20.
	Rate float64
}

const (
	defaultRate = 20
	// maxFailures is how many failures an error of Migrate names.
	maxFailures = 5
	// migratedAnnotation says for which versions an installed definition was migrated.
	migratedAnnotation = "crd.pintle.dev/migrated"
)

// Migrate makes the API server store all objects of a kind in the storage version, and then removes the
// other versions from status.storedVersions of the installed definition. After that a definition without
// those versions can be installed. Its counterparts are StorageVersionMigration of
// storagemigration.k8s.io and Cluster API's CRD migrator for controller-runtime.
//
// Run it after [Install], in one process at a time, such as the one that holds the lease. It reads the
// metadata of all objects, and writes each object without a change. An object that was changed or deleted
// in the meantime is done. Starting over is harmless: a process that ended in the middle leaves nothing
// behind. If nothing is left to do, Migrate reads the definition alone.
//
// Fields that somebody owns in a version that is not served belong to the same owner in the storage version
// afterwards: the API server refuses to apply to an object whose owners used a version that does not exist
// any more. A field that has another path in the storage version gets its owner back with the next apply.
//
// Migrate changes status.storedVersions only if every object was written, and if the definition has not
// changed in the meantime. Otherwise it returns an error. An object that the server refuses, because it is
// not valid any more or because a webhook refuses it, does not keep the others from being written. If
// the server asks for less load, Migrate waits.
//
// The order of a version change is: a release that converts both versions and stores the old one; one that
// stores the new one, and migrates; one that does not serve the old one ([Options].NotServed), and
// migrates; one without the old version. The way back to a release goes through the same steps. Between the
// second step and the end of its migration all versions need the webhook.
//
// It needs the verbs list and patch on the kind, get and patch on customresourcedefinitions, and patch on
// customresourcedefinitions/status. If several API servers run, wait some seconds after Install: one that has
// not seen the new definition yet stores the old version.
func Migrate(ctx context.Context, client *kube.Client, d *Definition, o MigrateOptions) error {
	if d.err != nil {
		return d.err
	}
	definitions := kube.ViewOf[Definition](client, kind)
	if err := definitions.Err(); err != nil {
		return err // there is no client
	}
	if o.Rate < 0 || math.IsNaN(o.Rate) {
		return fmt.Errorf("migrate %s: the rate %v is negative or no number", d.Name, o.Rate)
	}
	m := migration{
		client: client, definitions: definitions, log: cmp.Or(client.Config().Logger, slog.Default()),
		// A ticker needs a pause.
		pause: time.Duration(max(1, min(float64(time.Second)/cmp.Or(o.Rate, defaultRate), 1<<62))),
	}
	if err := m.run(ctx, d); err != nil {
		return fmt.Errorf("migrate %s: %w", d.Name, err)
	}
	return nil
}

type migration struct {
	client      *kube.Client
	definitions kube.View[Definition]
	log         *slog.Logger
	pause       time.Duration // between two writes
}

// key names an object of which the server showed a version.
type key struct {
	namespace, name string
	uid             types.UID
	version         string
	fields          []metav1.ManagedFieldsEntry // nil: they stay
}

func (m migration) run(ctx context.Context, d *Definition) error {
	live, err := m.definitions.Get(ctx, d.Name)
	switch {
	case err != nil:
		return err
	case storageOf(live) != storageOf(d):
		return fmt.Errorf("objects are stored in %s and not in %s: install the definition first",
			storageOf(live), storageOf(d))
	case isMigrated(live):
		return nil
	}
	gvk := kube.GVK{Group: live.Spec.Group, Version: storageOf(live), Kind: live.Spec.Names.Kind}
	objects := kube.ViewOf[metav1.PartialObjectMetadata](m.client,
		kube.Kind{GVK: gvk, Plural: live.Spec.Names.Plural, Scope: live.Spec.Scope})
	// All keys are read first: the writes can take longer than the history of the server.
	var keys []key
	for o, err := range objects.List(ctx) {
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		keys = append(keys, key{o.Namespace, o.Name, o.UID, o.ResourceVersion, moved(live, o.ManagedFields)})
	}
	m.log.Info("a migration begins", "definition", d.Name, "to", gvk.Version, "objects", len(keys))
	if err := m.writeAll(ctx, objects, keys); err != nil {
		return err
	}
	if err := m.finish(ctx, live); err != nil {
		return err
	}
	m.log.Info("a migration has ended", "definition", d.Name, "to", gvk.Version, "objects", len(keys))
	return nil
}

// writeAll writes the objects, one after the other.
func (m migration) writeAll(ctx context.Context, objects kube.View[metav1.PartialObjectMetadata], keys []key) error {
	ticker := time.NewTicker(m.pause)
	defer ticker.Stop()
	var failures []error
	failed := 0
	for _, k := range keys {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		err := m.write(ctx, objects, k)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if failed++; failed <= maxFailures {
				failures = append(failures, err)
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d objects could not be written, such as: %w",
			failed, len(keys), errors.Join(failures...))
	}
	return nil
}

// write makes the server store an object again. The server does so for a patch that changes nothing,
// because the object is encoded in another way.
func (m migration) write(ctx context.Context, objects kube.View[metav1.PartialObjectMetadata], k key) error {
	if k.namespace != "" {
		objects = objects.In(k.namespace)
	}
	meta := map[string]any{"uid": k.uid, "resourceVersion": k.version}
	if k.fields != nil {
		meta["managedFields"] = k.fields
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	for delay := time.Second; ; delay = min(2*delay, time.Minute) {
		_, err = objects.Patch(ctx, k.name, types.MergePatchType, patch)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return nil // somebody has deleted or written it
		case !apierrors.IsTooManyRequests(err):
			return err
		}
		if err := wait(ctx, delay, err); err != nil {
			return err
		}
	}
}

// finish removes the other versions from status.storedVersions.
func (m migration) finish(ctx context.Context, before *Definition) error {
	for try := 1; ; try++ {
		now, err := m.definitions.Get(ctx, before.Name)
		if err != nil {
			return err
		}
		if now.UID != before.UID || now.Generation != before.Generation || storageOf(now) != storageOf(before) {
			return errors.New("the definition has changed in the meantime: migrate again")
		}
		version := fmt.Sprintf(`"metadata":{"uid":%q,"resourceVersion":%q`, now.UID, now.ResourceVersion)
		if !slices.Equal(now.Status.StoredVersions, []string{storageOf(now)}) {
			err = m.definitions.Status().Patch(ctx, before.Name, types.MergePatchType,
				fmt.Appendf(nil, `{%s},"status":{"storedVersions":[%q]}}`, version, storageOf(now)))
		} else {
			_, err = m.definitions.Patch(ctx, before.Name, types.MergePatchType,
				fmt.Appendf(nil, `{%s,"annotations":{%q:%q}}}`, version, migratedAnnotation, versionsOf(now)))
			if err == nil {
				return nil
			}
		}
		if err != nil && (!apierrors.IsConflict(err) || try >= maxConflicts) {
			return err
		}
	}
}

// storageOf returns the storage version.
func storageOf(d *Definition) string {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// isMigrated reports whether nothing is left to migrate in a live definition.
func isMigrated(d *Definition) bool {
	return slices.Equal(d.Status.StoredVersions, []string{storageOf(d)}) &&
		d.Annotations[migratedAnnotation] == versionsOf(d)
}

// versionsOf names the served versions, after the storage version. Owners of fields may have used one that
// was served before.
func versionsOf(d *Definition) string {
	text := storageOf(d)
	for _, v := range d.Spec.Versions {
		if v.Served && !v.Storage {
			text += "," + v.Name
		}
	}
	return text
}

// moved returns the managed fields of an object, with those of versions that are not served moved to the
// storage version. It returns nil if they stay as they are.
func moved(d *Definition, entries []metav1.ManagedFieldsEntry) (all []metav1.ManagedFieldsEntry) {
	changed, group := false, d.Spec.Group+"/"
	for _, e := range entries {
		name, own := strings.CutPrefix(e.APIVersion, group)
		if v := d.Version(name); !own || v == nil || !v.Served {
			e.APIVersion, changed = group+storageOf(d), true
		}
		same := func(o metav1.ManagedFieldsEntry) bool {
			return o.Manager == e.Manager && o.Operation == e.Operation && o.Subresource == e.Subresource &&
				o.APIVersion == e.APIVersion
		}
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].FieldsV1 = union(all[i].FieldsV1, e.FieldsV1)
			continue
		}
		all = append(all, e)
	}
	if !changed {
		return nil
	}
	return all
}

// union returns the fields that are in either set.
func union(a, b *metav1.FieldsV1) *metav1.FieldsV1 {
	var own, other map[string]any
	if a == nil || json.Unmarshal(a.GetRawBytes(), &own) != nil {
		return b
	}
	if b == nil || json.Unmarshal(b.GetRawBytes(), &other) != nil {
		return a
	}
	add(own, other)
	return metav1.NewFieldsV1(string(encoded(own)))
}

func add(to, from map[string]any) {
	for name, v := range from {
		part, isSet := v.(map[string]any)
		if own, is := to[name].(map[string]any); is && isSet {
			add(own, part)
		} else {
			to[name] = v
		}
	}
}
