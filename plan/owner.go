package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// Mark is the annotation of an object that belongs to an owner and has no owner reference
// to it. That is an object that is retained, is cluster-scoped, is in another namespace
// than the owner, or belongs to a plan with Marks. Its value names the owner's kind, key and uid.
const Mark = "plan.pintle.dev/owner"

// Marked reconciles the owners of objects that have a [Mark]. It is for the kinds of such
// objects, as [controller.Owned] is for those of objects with owner references. Like Owned,
// it reconciles the owner of every state that the store of the objects has had.
func Marked[O, T any](owners kube.Handle[O], objects kube.Handle[T], predicates ...controller.Predicate) controller.Source {
	kind := owners.Kind().GroupKind().String()
	return controller.Mapped(objects, func(_ context.Context, o *T) []kube.Key {
		m, ok := markOf(any(o).(metav1.Object))
		if !ok || m.kind != kind {
			return nil
		}
		return []kube.Key{m.key}
	}, predicates...)
}

// mark is a parsed [Mark].
type mark struct {
	kind string // such as Shop.example.com
	key  kube.Key
	uid  types.UID
}

func (m mark) String() string {
	return strings.Join([]string{m.kind, m.key.Namespace, m.key.Name, string(m.uid)}, "/")
}

func markOf(o metav1.Object) (m mark, ok bool) {
	parts := strings.Split(o.GetAnnotations()[Mark], "/")
	if len(parts) != 4 {
		return mark{}, false
	}
	return mark{parts[0], kube.Key{Namespace: parts[1], Name: parts[2]}, types.UID(parts[3])}, true
}

func (p *Plan) mark() mark {
	return mark{p.kind.GroupKind().String(), kube.KeyOf(p.owner), p.owner.GetUID()}
}

// Owns reports whether an object belongs to the plan's owner: by an owner reference to its
// controller, or by a [Mark]. A Cleanup that changes children before [Plan.Delete] deletes
// them asks it, because somebody else's object may have the name of a child. The counterpart
// of Kubernetes is metav1.IsControlledBy.
func (p *Plan) Owns(o metav1.Object) bool {
	if c := metav1.GetControllerOfNoCopy(o); c != nil {
		return c.UID == p.owner.GetUID()
	}
	m, ok := markOf(o)
	return ok && m.uid == p.owner.GetUID()
}

// isOwner reports that an owner reference names the plan's owner.
func (p *Plan) isOwner(r metav1.OwnerReference) bool { return r.UID == p.owner.GetUID() }

// withoutReference returns a merge patch that takes the owner's reference from an object, as it was seen,
// and changes annotations. It also takes the finalizer of an outcome away.
func (p *Plan) withoutReference(o metav1.Object, annotations map[string]any) ([]byte, error) {
	about := map[string]any{
		"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(),
		"ownerReferences": slices.DeleteFunc(slices.Clone(o.GetOwnerReferences()), p.isOwner),
	}
	if i := slices.Index(o.GetFinalizers(), outcomeFinalizer); i >= 0 {
		about["finalizers"] = slices.Delete(slices.Clone(o.GetFinalizers()), i, i+1)
	}
	if annotations != nil {
		about["annotations"] = annotations
	}
	patch, err := json.Marshal(map[string]any{"metadata": about})
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return patch, nil
}

// setController makes the owner the controller of a child in its namespace, as
// [kube.SetController] does, which needs the types of both.
func (p *Plan) setController(child metav1.Object) error {
	is := metav1.GetControllerOfNoCopy(child)
	switch {
	case is == nil:
	case is.UID == p.owner.GetUID():
		return nil // a function may build the same object again
	default:
		return fmt.Errorf("the built object has a controller already: %s %s", is.Kind, is.Name)
	}
	if p.reference == nil {
		p.reference = &metav1.OwnerReference{
			APIVersion: p.kind.GroupVersion().String(), Kind: p.kind.Kind, Name: p.owner.GetName(), UID: p.owner.GetUID(),
		}
	}
	yes := true // the child is the program's, which may change it
	own := *p.reference
	own.Controller, own.BlockOwnerDeletion = &yes, &yes
	child.SetOwnerReferences(append(slices.Clone(child.GetOwnerReferences()), own))
	return nil
}

// succeeds reports that a mark is that of an earlier owner of the same kind and name. That
// owner is gone, because there is one of a name at a time.
func (p *Plan) succeeds(m mark) bool {
	own := p.mark()
	return m.kind == own.kind && m.key == own.key && m.uid != own.uid
}

// mayTake returns an error if an object belongs to somebody else. An object that belongs
// to nobody may be taken if it has all labels of the child, and so may one that is marked for
// an earlier owner of the same kind and name. One that is being deleted may not: it has to go as
// it was left, such as with the deletion policy that the earlier owner has given it.
func (p *Plan) mayTake(is metav1.Object, want map[string]string, kind string) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("apply %s %s: %w%s", kind, kube.KeyOf(is), kube.ErrTaken, fmt.Sprintf(format, args...))
	}
	owner := metav1.GetControllerOfNoCopy(is)
	m, marked := markOf(is)
	switch {
	case p.Owns(is):
		return nil
	case owner != nil:
		return fail(": %s %s owns it", owner.Kind, owner.Name)
	case marked && !p.succeeds(m):
		return fail(": %s %s owns it", m.kind, m.key)
	case is.GetDeletionTimestamp() != nil:
		return fail(", and it is being deleted")
	case len(want) > 0 && labels.SelectorFromSet(want).Matches(labels.Set(is.GetLabels())):
		return nil
	}
	return fail(", and it has no controller: delete it, or add the labels %q to it so that it is taken over", labels.Set(want))
}
