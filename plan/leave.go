package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/internal/finalizers"
	"github.com/pintle-go/pintle/internal/groups"
	"github.com/pintle-go/pintle/kube"
)

// Delete deletes the objects of the plan backwards: an object is deleted after all that
// were made with its help. It is the Cleanup of a controller, and asks to be called again
// until all is done. If the owner is deleted with the option to orphan its children, all
// objects and things stay: see [Plan.Orphans]. If the owner is deleted in the foreground, the
// garbage collector deletes the objects with owner references at once, in no order,
// whatever the Cleanup waits for. It leaves the objects of a plan with Marks to Delete.
func (p *Plan) Delete(ctx context.Context) (controller.Action, error) {
	r := p.begin(ctx)
	defer func() {
		r.crew.wait()
		r.scratch.release(p.nodes)
	}()
	orphans, err := p.Orphans(ctx)
	if err != nil {
		return controller.Done, fmt.Errorf("see whether the owner orphans its children: %w", err)
	}
	var all []*record
	known := true
	for _, rec := range slices.Clone(r.inventory.records) {
		if rec.Kind == "" {
			continue
		}
		all = append(all, rec)
		if orphans && rec.Undo != undoOrphan {
			rec.Undo, known = undoOrphan, false
		}
	}
	if !known {
		// The first object that is left to others is no witness any more.
		if err := r.store(ctx); err != nil {
			return controller.Done, err
		}
	}
	for _, n := range p.nodes {
		n.visited, n.isAbsent = true, true
	}
	failed := r.leave(ctx, all)
	left := slices.ContainsFunc(r.inventory.records, func(rec *record) bool { return rec.Kind != "" })
	if !left && len(failed) == 0 {
		if err := p.dismiss(ctx); err != nil {
			return controller.Done, err
		}
		p.Monitor.Forget(p.owner)
		return controller.Done, nil // the status goes with the owner
	}
	for _, n := range p.nodes {
		if n.record != nil && n.record.Kind == "" {
			r.inventory.unlink(n)
		}
	}
	return r.conclude(ctx, failed, false)
}

// undo is how the node's object leaves, as the status has it.
func (n *node) undo() string {
	switch {
	case n.retain:
		return undoRetain
	case n.untilGone:
		return undoWait
	}
	return ""
}

// makes reports that a recorded object or thing is of the node's kind. A node of an earlier
// description may have had the name.
func (n *node) makes(s NodeStatus) bool {
	return n.outside == (s.Thing != nil) && n.kind.Kind == s.Kind && n.kind.Group == s.gvk().Group
}

// leave deletes objects, each after those that were made with its help. It returns the
// errors.
func (r *run) leave(ctx context.Context, all []*record) (failed []error) {
	if len(all) == 0 {
		return nil
	}
	g := emptyGraph(len(all))
	for i, rec := range all {
		for n, other := range all {
			if i != n && slices.Contains(rec.Needs, other.Name) {
				g.add(i, n)
			}
		}
	}
	g.cut()
	w := g.backward()
	next := w.first()
	removed := make([]removal, len(all))
	for {
		for _, i := range next {
			rec := all[i]
			if rec.node != nil && rec.node.makes(rec.NodeStatus) && rec.Undo != undoOrphan {
				rec.Undo = rec.node.undo()
			}
			rec.enter(Deleting, "", r.now)
			s := rec.NodeStatus
			r.crew.send(i, func() {
				defer func() {
					if v := recover(); v != nil {
						removed[i] = removal{err: panicked(ctx, &node{name: s.Name}, v)}
					}
				}()
				removed[i] = r.plan.remove(ctx, s)
			})
		}
		answered, ok := r.crew.next(time.Time{})
		if !ok {
			break
		}
		next = nil
		for _, i := range answered {
			rec := all[i]
			if removed[i].shown {
				rec.Thing.Answered = metav1.Time{}
			}
			switch out := removed[i]; {
			case out.err != nil:
				rec.Message = short(out.err.Error())
				failed = append(failed, fmt.Errorf("node %q: %w", rec.Name, out.err))
			case out.waits != "":
				rec.Message = out.waits
				r.lookIn(cmp.Or(out.again, lookSoon))
			default:
				r.gone(rec)
				next = append(next, w.done(i)...)
			}
		}
	}
	for i, rec := range all {
		if rec.State == Deleting {
			continue
		}
		var waits []string
		for _, n := range g.neededBy[i] {
			if slices.Contains(r.inventory.records, all[n]) { // it was made with this one's help, and is there
				waits = append(waits, all[n].Name)
			}
		}
		rec.enter(Deleting, waitingFor(waits), r.now)
	}
	return failed
}

// waitingFor is a message that names nodes.
func waitingFor(nodes []string) string {
	text := "waiting for " + strings.Join(nodes[:min(len(nodes), told)], ", ")
	if len(nodes) > told {
		text += fmt.Sprintf(" and %d more", len(nodes)-told)
	}
	return text
}

// gone takes an object out of the inventory. A node that is absent keeps a record.
func (r *run) gone(rec *record) {
	n := rec.node
	if n != nil {
		r.inventory.unlink(n)
	}
	r.inventory.drop(rec)
	if n != nil {
		r.inventory.add(n, NodeStatus{Name: n.name})
		n.record.enter(Absent, "", r.now)
	}
}

// removal is the outcome of a deletion.
type removal struct {
	waits string        // why the object is not gone; empty if nobody needs to wait for that
	again time.Duration // when to look again; 0: soon
	shown bool          // the target has shown a thing that was created a moment ago
	err   error
}

// removeTries bounds how often a deletion starts over because the object has changed.
const removeTries = 5

// remove deletes a recorded object, if it still belongs to the owner. It looks at the
// object first, and deletes exactly the state that it has seen. The uid on record does not
// matter: the process may have ended after it made the object again.
func (p *Plan) remove(ctx context.Context, s NodeStatus) removal {
	retains := s.Undo == undoRetain || s.Undo == undoOrphan
	if s.Thing != nil {
		return p.removeThing(ctx, s, retains)
	}
	if len(s.Orphans) > 0 && !retains {
		if out := p.collect(ctx, s); out.waits != "" || out.err != nil {
			return out
		}
	}
	objects := p.anyOf(s)
	is, err := objects.Get(ctx, s.ObjectName)
	if errors.Is(err, kube.ErrNotServed) && s.gvk().Group != "" {
		var versions []string
		if versions, err = otherVersions(ctx, p.client, s.gvk()); err != nil {
			return removal{err: err}
		}
		err = kube.ErrNotServed
		for i := 0; i < len(versions) && errors.Is(err, kube.ErrNotServed); i++ {
			s.APIVersion = versions[i]
			objects = p.view(kube.Kind{GVK: s.gvk()}, s.Namespace)
			is, err = objects.Get(ctx, s.ObjectName)
		}
	}
	for try := 1; ; try++ {
		if try > 1 {
			is, err = objects.Get(ctx, s.ObjectName)
		}
		switch {
		case apierrors.IsNotFound(err), errors.Is(err, kube.ErrNotServed):
			return removal{}
		case errors.Is(err, kube.ErrKind), errors.Is(err, kube.ErrScope):
			return removal{} // no server has such an object: another has written the record
		case err != nil:
			return removal{err: err}
		case !p.Owns(is):
			return removal{} // ours is gone and somebody has made another one, or ours has another owner
		}
		if is.DeletionTimestamp != nil && !retains {
			return waitsFor(s, is)
		}
		if retains {
			err = p.release(ctx, objects, is)
		} else {
			err = objects.Delete(ctx, s.ObjectName, deletionOf(s, is))
		}
		switch {
		case err == nil && (retains || s.Undo != undoWait):
			return removal{}
		case err == nil, apierrors.IsConflict(err) && try < removeTries:
		case !apierrors.IsNotFound(err):
			return removal{err: err}
		}
	}
}

// removeThing deletes a recorded thing outside the cluster.
func (p *Plan) removeThing(ctx context.Context, s NodeStatus, retains bool) removal {
	things, known := p.things[s.Kind]
	switch {
	case retains && known:
		return things.release(ctx, p, s)
	case retains && s.Thing.Kept:
		return removal{err: inSecret{}.release(ctx, p, s)}
	case retains:
		return removal{}
	case !known:
		return removal{err: fmt.Errorf("delete %s %s: the plan has no Things of this kind: add them with Knows", s.Kind, s.ObjectName)}
	}
	return things.remove(ctx, p, s)
}

// waitsFor says why an object that is being deleted is waited for.
func waitsFor(s NodeStatus, is *metav1.PartialObjectMetadata) removal {
	if s.Undo != undoWait {
		return removal{}
	}
	return removal{waits: fmt.Sprintf("its finalizers %q keep it", is.Finalizers)}
}

// deletionOf returns the options to delete an object as it was seen. The propagation is
// given because the default for Jobs leaves their pods.
func deletionOf(s NodeStatus, is *metav1.PartialObjectMetadata) metav1.DeleteOptions {
	how := metav1.DeletePropagationBackground
	if s.Undo == undoWait && !cleansUp(s, is) {
		how = metav1.DeletePropagationForeground
	}
	return metav1.DeleteOptions{Preconditions: asSeen(is), PropagationPolicy: &how}
}

// cleansUp reports that a custom resource has a finalizer of its controller, which deletes the
// dependents in an order of its own. A deletion in the foreground would have the garbage collector
// delete them at once. The controllers of built-in kinds leave their dependents to the garbage
// collector, whatever finalizers these objects have.
func cleansUp(s NodeStatus, is *metav1.PartialObjectMetadata) bool {
	return groups.IsCustom(s.gvk().Group) && finalizers.HasCleanup(is)
}

// asSeen returns preconditions by which an object is deleted only in the state that was seen.
func asSeen(is metav1.Object) *metav1.Preconditions {
	uid, version := is.GetUID(), is.GetResourceVersion()
	return &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}

// release takes the marks of the owner from an object that stays.
func (p *Plan) release(ctx context.Context, objects kube.View[metav1.PartialObjectMetadata], is *metav1.PartialObjectMetadata) error {
	patch, err := p.withoutReference(is, map[string]any{Mark: nil})
	if err == nil {
		_, err = objects.Patch(ctx, is.Name, types.MergePatchType, patch)
	}
	return err
}

// anyOf returns a handle for a recorded object. A node of its kind knows more of the kind
// than the record does.
func (p *Plan) anyOf(s NodeStatus) kube.View[metav1.PartialObjectMetadata] {
	kind := kube.Kind{GVK: s.gvk()}
	for _, n := range p.nodes {
		if n.kind.GroupKind() == kind.GroupKind() {
			kind = kube.Kind{GVK: n.kind.GVK, Plural: n.kind.plural, Scope: n.kind.scope}
		}
	}
	return p.view(kind, s.Namespace)
}

func (p *Plan) view(kind kube.Kind, namespace string) kube.View[metav1.PartialObjectMetadata] {
	view := kube.ViewOf[metav1.PartialObjectMetadata](p.client, kind)
	if namespace != "" {
		view = view.In(namespace)
	}
	return view
}
