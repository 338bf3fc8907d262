package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/intent"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// StatusView writes the status of objects of which T has some fields. Its methods are those
// of [View] for the status alone. They return no object: a status that is settled costs
// neither a request nor a decoding. It stands for client.SubResourceWriter of
// controller-runtime.
type StatusView[T any] struct{ handle *handle }

// Status writes the status of objects of which T has all fields. Its counterpart is
// client.SubResourceWriter of controller-runtime.
type Status[T any] struct{ StatusView[T] }

// Status returns the writes of the status. Its counterpart is Status of
// controller-runtime's client.Client.
func (v View[T]) Status() StatusView[T] { return StatusView[T]{v.base()} }

// Status is [View.Status] that can also update.
func (r Resource[T]) Status() Status[T] { return Status[T]{r.View.Status()} }

// Ensure is [StatusView.Apply] for a reconcile, which writes the same status again
// and again. It costs no request if a store of this client, of the same type and kind,
// shows that nothing would change. The store shows that in two cases:
//
//   - The status is as the store has it.
//   - This process last applied the same status to the object. The store has shown that
//     write, and shows no other value in a field that the field manager owns since.
//
// Neither case holds if another process has applied other fields in the name of the field
// manager.
//
// If somebody else edits a status, Ensure puts the status back. An empty status is
// written once, so that there is one. It is not written again however often it is
// ensured. Where no store runs, and for dry runs, Ensure is Apply.
//
// Caveat: the first Ensure of a process compares values alone. An earlier release
// of the program may have set a field that T does not name. Such a field stays until the
// status changes.
//
// In controller-runtime a reconcile compares by hand and calls Status().Update or
// Status().Patch.
func (s StatusView[T]) Ensure(ctx context.Context, o *T) error {
	if o == nil {
		return s.Apply(ctx, o)
	}
	return s.handle.orNone().ensureStatus(ctx, asObject(o))
}

func (h *handle) ensureStatus(ctx context.Context, o object) error {
	if h.write.DryRun {
		return h.applyStatus(ctx, o)
	}
	body := bodies.Get().(*encoded)
	defer body.release()
	if h.statusSeen(o, body) {
		return nil
	}
	req, err := h.applyRequest(ctx, o, intent.Status, body.text)
	if err != nil {
		return err
	}
	id := part{Key{req.namespace, req.name}, true}
	t := h.client.stores.showing(h, id.key, o)
	if t == nil {
		return h.applyStatus(ctx, o)
	}
	wanted := h.digest(req)
	var same bool
	var others Change
	// The values do not show who owns them. Only an apply tells that of a predecessor.
	_, known := t.ensured.last(id, wanted)
	if known || len(h.write.TakeOver) == 0 && !t.ensured.differs(id, wanted) {
		same, err = t.statusShown(ctx, id, req.body, wanted, o)
		same = same && !t.ensured.foreign(id)
	}
	if err == nil && !same {
		same, others, err = t.unchanged(ctx, id, wanted, h.newObject())
	}
	if err != nil {
		return req.wrap(err)
	}
	if same {
		return nil
	}
	// Only the metadata of the answer is read: the table will show the status.
	metadata := h.metadata()
	req.accept = metadata.codec.Accept(wire.OneObject)
	return metadata.ensures(ctx, req, t.ensured.begin(id, wanted, req, others), o.GetUID(), metadata.newObject())
}

// Apply is [View.Apply] of the status alone. o may have been read: besides its
// status, only name, namespace and uid count. If o has the uid of an object that was
// recreated since, Apply returns a conflict. The status of a custom kind may have
// been written all the same: the server does not look at the uid there. The counterpart
// is Api::patch_status of kube-rs with Patch::Apply.
func (s StatusView[T]) Apply(ctx context.Context, o *T) error {
	return s.handle.orNone().applyStatus(ctx, asObject(o))
}

func (h *handle) applyStatus(ctx context.Context, o object) error {
	req, err := h.applyRequest(ctx, o, intent.Status, nil)
	if err != nil {
		return err
	}
	// Only the metadata of the answer is read.
	metadata := h.metadata()
	req.accept = metadata.codec.Accept(wire.OneObject)
	return metadata.sendApply(ctx, req, o.GetUID(), ensured{}, metadata.newObject())
}

// applies sends an apply. If an object in a custom status loses all its fields, the server's
// merge makes it null, and the server refuses that: the schema asks for an object. Then
// applies removes the object before it applies the empty one.
func (h *handle) applies(ctx context.Context, req *request, answer object) error {
	key := Key{req.namespace, req.name}
	err := h.writes(ctx, req, key, answer)
	if req.subresource != statusPart || !refusesNull(err) {
		return err
	}
	without := *req
	if without.body = withoutEmpty(req.body); without.body == nil {
		return err
	}
	if h.writes(ctx, &without, key, answer) != nil {
		return err
	}
	return h.writes(ctx, req, key, answer)
}

// refusesNull reports that a server refuses an object because some part of it is null.
func refusesNull(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return strings.Contains(c.Message, `"null"`)
	})
}

// withoutEmpty returns the body of an apply without the empty objects in its status, or nil
// if there are none.
func withoutEmpty(body []byte) []byte {
	var o map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&o) != nil {
		return nil
	}
	status, ok := o[statusPart].(map[string]any)
	if !ok || !dropEmpty(status) {
		return nil
	}
	if len(status) == 0 {
		delete(o, statusPart)
	}
	body, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	return body
}

// dropEmpty removes the empty objects in an object, and reports whether one of them, or the
// object itself, was empty.
func dropEmpty(o map[string]any) bool {
	found := len(o) == 0
	for name, v := range o {
		if within, ok := v.(map[string]any); ok && dropEmpty(within) {
			found = true
			if len(within) == 0 {
				delete(o, name)
			}
		}
	}
	return found
}

// Modify is [View.Modify] of the status alone: the server takes no other change. Its
// counterpart is a read and a Status().Patch within client-go's retry.RetryOnConflict.
func (s StatusView[T]) Modify(ctx context.Context, name string, change func(*T) error) error {
	_, err := s.handle.orNone().modify(ctx, statusPart, name, func(o object) error { return change(typed[T](o)) })
	return err
}

// Patch is [View.Patch] of the status alone. Its counterpart is Status().Patch of
// controller-runtime's client.
func (s StatusView[T]) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte) error {
	return s.handle.orNone().metadata().patch(ctx, statusPart, name, kind, patch, new(metav1.PartialObjectMetadata))
}

// Update replaces the status of an object by that of o, the object as it was read, with
// changes. Update returns a conflict (apierrors.IsConflict) if somebody else has changed the
// object meanwhile; see [StatusView.Modify]. o keeps its resourceVersion, so read the object
// again before the next Update. The counterparts are Status().Update of controller-runtime's
// client and Api::replace_status of kube-rs.
func (s Status[T]) Update(ctx context.Context, o *T) error {
	return s.handle.orNone().updateStatus(ctx, asObject(o))
}

func (h *handle) updateStatus(ctx context.Context, o object) error {
	req, err := h.forObject(ctx, "update", http.MethodPut, o)
	if err != nil {
		return err
	}
	req.subresource = statusPart
	if req.body, req.contentType, err = h.codec.Encode(shallow(o)); err != nil {
		return req.wrap(err)
	}
	metadata := h.metadata()
	req.accept = metadata.codec.Accept(wire.OneObject)
	return metadata.writes(ctx, req, Key{req.namespace, req.name}, metadata.newObject())
}

// statusPart is the subresource of an object's status.
const statusPart = "status"
