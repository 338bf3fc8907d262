package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// Replacement is how a node answers a server that refuses a change because fields of the
// object are immutable.
type Replacement string

const (
	// Report makes the node fail. Its message names the fields and says how people can go
	// on. It is the default for all kinds but Job and StatefulSet.
	Report Replacement = "Report"
	// Recreate deletes the object with its dependents, waits until they are gone, and
	// creates it again. It is the default for Jobs. It is refused for kinds whose deletion
	// may lose data: PersistentVolumeClaim, PersistentVolume, Namespace,
	// CustomResourceDefinition and StatefulSet.
	Recreate Replacement = "Recreate"
	// Orphan deletes a StatefulSet without its dependents and creates it again. Its pods and
	// volumes stay, and the StatefulSet takes them over. It is the default for StatefulSets,
	// and for them alone. If a volumeClaimTemplate asks for more storage, the volumes are
	// grown first, which their StorageClass must allow. Templates that ask for less, and a
	// change of the selector, are reported instead. Pods that run get a volume of an added
	// template when they are recreated. If the node leaves the plan in between, or the owner
	// is deleted, the pods are deleted all the same, unless the node is retained or the
	// controller has no Cleanup.
	Orphan Replacement = "Orphan"
)

// OnImmutable sets how the node answers a change of immutable fields. The answer is given
// only if the server would accept the wanted object as a new one, which a dry run tells.
// The operator needs the rights to create and delete objects of the kind; for Orphan, also
// to list and patch PersistentVolumeClaims.
func (n *Node[T]) OnImmutable(r Replacement) *Node[T] {
	precious := []string{"PersistentVolumeClaim", "PersistentVolume", "Namespace", "CustomResourceDefinition", "StatefulSet"}
	switch {
	case n.outside:
		n.plan.wrong(fmt.Errorf("%w: %q is a step: things have the function Update", errGraph, n.name))
	case r != Report && r != Recreate && r != Orphan:
		n.plan.wrong(fmt.Errorf("%w: %q has an unknown replacement %q", errGraph, n.name, r))
	case r == Orphan && !n.isStatefulSet():
		n.plan.wrong(fmt.Errorf("%w: %q is no StatefulSet: only these can be orphaned and recreated", errGraph, n.name))
	case r == Recreate && slices.Contains(precious, n.kind.Kind):
		n.plan.wrong(fmt.Errorf("%w: %q must not be recreated: the deletion of a %s may lose data", errGraph, n.name, n.kind.Kind))
	case r == Recreate && n.retain:
		n.plan.wrong(fmt.Errorf("%w: %q is retained, so it cannot be recreated", errGraph, n.name))
	}
	n.replacement = r
	return n
}

func (n *node) isStatefulSet() bool {
	return n.kind.Group == appsv1.GroupName && n.kind.Kind == "StatefulSet"
}

func (n *node) onImmutable() Replacement {
	switch {
	case n.replacement != "":
		return n.replacement
	case n.isStatefulSet():
		return Orphan
	case n.isJob() && !n.retain:
		return Recreate
	}
	return Report
}

// replace answers a refused change.
func (n *objectNode[T]) replace(ctx context.Context, c claim, refused error) (answer, error) {
	view, ok := n.view(c.key)
	if !ok || len(refusedFields(refused)) == 0 {
		return answer{}, refused // a policy or a webhook names no field
	}
	live, err := n.onServer(c.key).Get(ctx, c.key.Name)
	if err != nil {
		return answer{}, refused // it did not refuse a change, or the next run sees more
	}
	is := any(live).(metav1.Object)
	switch {
	case !n.plan.Owns(is):
		return answer{}, refused
	case is.GetDeletionTimestamp() != nil:
		return answer{wait: "it is being deleted, to be created again", again: soonest}, nil
	}
	if !n.isValid(ctx, view, c.key.Name) {
		return answer{}, refused
	}
	how := metav1.DeletePropagationForeground
	switch n.onImmutable() {
	case Report:
		return answer{}, n.report(refused, "", c.key)
	case Orphan:
		how = metav1.DeletePropagationOrphan
		set, err := as[appsv1.StatefulSet](live)
		if err == nil {
			err = n.orphan(ctx, c.key, set, refused)
		}
		switch {
		case err != nil:
			return answer{}, err
		case !c.orphans:
			return answer{wait: "it is about to be replaced", again: patience, orphans: orphansOf(set)}, nil
		}
	}
	err = view.Delete(ctx, c.key.Name, metav1.DeleteOptions{Preconditions: asSeen(is), PropagationPolicy: &how})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return answer{}, err
	}
	return answer{wait: "it is being deleted, to be created again: the server refuses to change " +
		strings.Join(refusedFields(refused), ", "), again: soonest}, nil
}

// view returns a handle that applies and deletes an object.
func (n *objectNode[T]) view(key kube.Key) (kube.View[T], bool) {
	view, ok := viewOf(n.handle)
	if ok && key.Namespace != "" {
		view = view.In(key.Namespace)
	}
	return view, ok
}

// viewOf returns the view that a handle is or has. Ok is false for a handle that only reads.
func viewOf[T any](handle kube.Handle[T]) (view kube.View[T], ok bool) {
	switch h := handle.(type) {
	case kube.Resource[T]:
		return h.View, true
	case kube.View[T]:
		return h, true
	}
	return view, false
}

// isValid reports that the server would accept the wanted object under another name. Then
// it is the change that the server has refused. It asks for room in the quota last.
func (n *objectNode[T]) isValid(ctx context.Context, view kube.View[T], name string) bool {
	other := *n.wanted
	any(&other).(metav1.Object).SetName(strings.TrimRight(name[:min(len(name), 40)], "-.") + "-dry-run")
	_, err := view.With(kube.WriteOptions{DryRun: true}).Apply(ctx, &other)
	// The live object may hold a node port or a cluster IP that the wanted one names too.
	held := func(c metav1.StatusCause) bool { return strings.Contains(c.Message, "already allocated") }
	all := causes(err)
	full := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
	return err == nil || full || len(all) > 0 && !slices.ContainsFunc(all, func(c metav1.StatusCause) bool { return !held(c) })
}

// report names the fields of a refused change.
func (n *objectNode[T]) report(refused error, why string, key kube.Key) error {
	if why != "" {
		why = " (" + why + ")"
	}
	return fmt.Errorf("the server refuses to change %s of %s %s%s: set the former values, or save its data and delete it; "+
		"then it is created again: %w", strings.Join(refusedFields(refused), ", "), n.kind.Kind, key, why, refused)
}

// refusedFields returns the names of the fields that the server has named. If one of its
// reasons names no field, it returns none.
func refusedFields(refused error) (fields []string) {
	for _, cause := range causes(refused) {
		if cause.Field == "" {
			return nil
		}
		if !slices.Contains(fields, cause.Field) {
			fields = append(fields, cause.Field)
		}
	}
	return fields
}

// causes returns the reasons of a server's refusal.
func causes(refused error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(refused, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// orphan prepares a StatefulSet for its replacement. It returns an error if its pods would
// be lost, or its volumes cannot be as wanted.
func (n *objectNode[T]) orphan(ctx context.Context, key kube.Key, is *appsv1.StatefulSet, refused error) error {
	want, err := as[appsv1.StatefulSet](n.wanted)
	if err != nil {
		return err
	}
	if metav1.FormatLabelSelector(is.Spec.Selector) != metav1.FormatLabelSelector(want.Spec.Selector) {
		return n.report(refused, "with another selector it would not take its pods over", key)
	}
	sizes := make(map[string]resource.Quantity)
	for _, t := range want.Spec.VolumeClaimTemplates {
		size := *t.Spec.Resources.Requests.Storage()
		sizes[t.Name] = size
		for _, was := range is.Spec.VolumeClaimTemplates {
			if was.Name == t.Name && size.Cmp(*was.Spec.Resources.Requests.Storage()) < 0 {
				return n.report(refused, fmt.Sprintf("the volumes %s cannot shrink to %s", t.Name, &size), key)
			}
		}
	}
	volumes := kube.For[corev1.PersistentVolumeClaim](n.plan.client).In(key.Namespace)
	for v, err := range volumes.List(ctx) {
		if err != nil {
			return err
		}
		template, mine := templateOf(v.Name, key.Name, sizes)
		if !mine {
			continue
		}
		if size := sizes[template]; size.Cmp(*v.Spec.Resources.Requests.Storage()) > 0 {
			if err := growVolume(ctx, volumes, v, size); err != nil {
				return err
			}
		}
	}
	return nil
}

// templateOf returns the volumeClaimTemplate of a StatefulSet's volume, whose name is
// TEMPLATE-SET-ORDINAL.
func templateOf[V any](volume, set string, templates map[string]V) (template string, ok bool) {
	for template := range templates {
		ordinal, has := strings.CutPrefix(volume, template+"-"+set+"-")
		if _, err := strconv.ParseUint(ordinal, 10, 31); has && err == nil {
			return template, true
		}
	}
	return "", false
}

func growVolume(
	ctx context.Context, volumes kube.Resource[corev1.PersistentVolumeClaim], v *corev1.PersistentVolumeClaim, size resource.Quantity,
) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.UID, "resourceVersion": v.ResourceVersion},
		"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": size}}},
	})
	if err == nil {
		_, err = volumes.Patch(ctx, v.Name, types.MergePatchType, patch)
	}
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "must support resize") && v.Spec.StorageClassName != nil {
		return fmt.Errorf("grow the volume %s to %s: set allowVolumeExpansion of StorageClass %s, or the former size: %w",
			v.Name, &size, *v.Spec.StorageClassName, err)
	}
	if err != nil {
		return fmt.Errorf("grow the volume %s to %s: %w", v.Name, &size, err)
	}
	return nil
}
