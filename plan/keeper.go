package plan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/finalizers"
	"github.com/pintle-go/pintle/kube"
)

// Keeper is where the outcomes of things are recorded: see [InSecret].
type Keeper interface {
	// load returns the outcome of a recorded thing. A thing that is being adopted has no
	// token: then it is an outcome that a former owner has left.
	load(ctx context.Context, p *Plan, s NodeStatus) (kept, error)
	save(ctx context.Context, p *Plan, s NodeStatus, outcome map[string]string) error
	// drop deletes an outcome after its thing.
	drop(ctx context.Context, p *Plan, s NodeStatus) error
	// release leaves an outcome to others.
	release(ctx context.Context, p *Plan, s NodeStatus) error
}

// kept is an outcome as a Keeper has it.
type kept struct {
	outcome map[string]string // empty: there is none
	token   string
	right   bool // it need not be saved again
	taken   bool // somebody else's is in its place
}

// InSecret keeps each outcome in a Secret of its own: the keys of the outcome are the keys
// of the Secret. The Secret is in the owner's namespace, or in the handle's if the owner is
// cluster-scoped, and [OutcomeName] is its name. It is deleted after the thing, or retained
// with it. A finalizer keeps it until then, also if its namespace is deleted first.
func InSecret(secrets kube.Resource[corev1.Secret]) Keeper { return inSecret{secrets} }

// OutcomeName returns the name of the Secret that has the outcome of a thing.
func OutcomeName(kind, thing string) string { return secretName("outcome", kind, thing) }

func secretName(of, kind, name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(kind+"-"+name))
	sum := sha256.Sum256([]byte(kind + "/" + name))
	return of + "-" + strings.Trim(clean[:min(len(clean), 200)], "-") + "-" + hex.EncodeToString(sum[:4])
}

// tokenAnnotation tells of which thing a Secret has the outcome: there may have been
// another one of the same name.
const tokenAnnotation = "plan.pintle.dev/token"

// outcomeFinalizer keeps the Secret of an outcome until its thing is gone, also if somebody
// deletes the Secret or its namespace before.
const outcomeFinalizer = "plan.pintle.dev/outcome"

// isGuarded reports whether the Secret of an outcome stays as long as its thing needs it, and no
// longer. Nobody would take the finalizer away after an owner without a Cleanup.
func (p *Plan) isGuarded(ctx context.Context, o *corev1.Secret) bool {
	guards := finalizers.CleansUp(ctx, p.owner)
	return slices.Contains(o.Finalizers, outcomeFinalizer) == guards || guards && o.DeletionTimestamp != nil
}

// guard adds the finalizer to the Secret of an outcome, or takes it away. An apply sends no finalizers.
func (p *Plan) guard(ctx context.Context, secrets kube.Resource[corev1.Secret], is *corev1.Secret) error {
	all := slices.DeleteFunc(slices.Clone(is.Finalizers), func(name string) bool { return name == outcomeFinalizer })
	if finalizers.CleansUp(ctx, p.owner) {
		all = append(all, outcomeFinalizer)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": is.UID, "resourceVersion": is.ResourceVersion, "finalizers": all,
	}})
	if err == nil {
		_, err = secrets.Patch(ctx, is.Name, types.MergePatchType, patch)
	}
	return err
}

// unguard takes the finalizer away.
func (p *Plan) unguard(ctx context.Context, secrets kube.Resource[corev1.Secret], is *corev1.Secret) (*corev1.Secret, error) {
	patch, err := p.withoutReference(is, nil)
	if err != nil {
		return nil, err
	}
	return secrets.Patch(ctx, is.Name, types.MergePatchType, patch)
}

type inSecret struct{ secrets kube.Resource[corev1.Secret] }

// of returns the handle and the key of a thing's Secret. Without a handle, the namespace of a
// cluster-scoped owner's Secrets is not known.
func (k inSecret) of(p *Plan, s NodeStatus) (kube.Resource[corev1.Secret], kube.Key) {
	if k.secrets.Client() == nil {
		k.secrets = kube.For[corev1.Secret](p.client)
	}
	key := kube.Key{Namespace: p.owner.GetNamespace(), Name: OutcomeName(s.Kind, s.ObjectName)}
	if all := k.secrets.Namespaces(); key.Namespace == "" && len(all) == 1 {
		key.Namespace = all[0]
	}
	if key.Namespace == "" {
		return k.secrets, key
	}
	return k.secrets.In(key.Namespace), key
}

func (k inSecret) load(ctx context.Context, p *Plan, s NodeStatus) (kept, error) {
	secrets, key := k.of(p, s)
	o, err := secrets.Cached().Get(ctx, key.Name)
	if err != nil || !p.keeps(o, s) {
		o, err = secrets.Get(ctx, key.Name) // a store may be behind
	}
	switch {
	case apierrors.IsNotFound(err):
		return kept{}, nil
	case err != nil:
		return kept{}, fmt.Errorf("read the outcome of %s %s: %w", s.Kind, s.ObjectName, err)
	case !p.keeps(o, s):
		return kept{taken: !p.Owns(o) && !p.isLeft(o)}, nil
	}
	outcome := make(map[string]string, len(o.Data))
	for name, value := range o.Data {
		outcome[name] = string(value)
	}
	return kept{outcome: outcome, token: o.Annotations[tokenAnnotation], right: p.Owns(o) && p.isGuarded(ctx, o)}, nil
}

// keeps reports that a Secret has the outcome of a recorded thing.
func (p *Plan) keeps(o *corev1.Secret, s NodeStatus) bool {
	token := o.Annotations[tokenAnnotation]
	return s.Thing.Token == "" && p.isLeft(o) || p.Owns(o) && token != "" && (token == s.Thing.Token || s.Thing.Token == "")
}

// isLeft reports whether a Secret has the outcome of a thing that a former owner has left.
func (p *Plan) isLeft(o *corev1.Secret) bool {
	m, marked := markOf(o)
	return o.Annotations[tokenAnnotation] != "" && metav1.GetControllerOfNoCopy(o) == nil && (!marked || p.succeeds(m))
}

func (k inSecret) save(ctx context.Context, p *Plan, s NodeStatus, outcome map[string]string) error {
	secrets, key := k.of(p, s)
	o := &corev1.Secret{Data: make(map[string][]byte, len(outcome))}
	o.Namespace, o.Name = key.Namespace, key.Name
	// With an owner reference, the garbage collector could delete the Secret before the thing.
	o.Annotations = map[string]string{tokenAnnotation: s.Thing.Token, Mark: p.mark().String()}
	for name, value := range outcome {
		o.Data[name] = []byte(value)
	}
	is, err := secrets.Get(ctx, key.Name)
	switch {
	case err != nil || is.Annotations[tokenAnnotation] == s.Thing.Token:
	case !p.isLeft(is):
		err = p.mayTake(is, nil, "Secret")
	case is.DeletionTimestamp != nil: // its thing is gone, because there is one of a name at a time
		if is, err = p.unguard(ctx, secrets, is); err == nil && len(is.Finalizers) > 0 {
			err = p.mayTake(is, nil, "Secret")
		}
	}
	if err == nil || apierrors.IsNotFound(err) {
		is, err = secrets.Ensure(ctx, o)
	}
	if err == nil && !p.isGuarded(ctx, is) {
		err = p.guard(ctx, secrets, is)
	}
	if err != nil {
		return fmt.Errorf("keep the outcome of %s %s: %w", s.Kind, s.ObjectName, err)
	}
	return nil
}

func (k inSecret) release(ctx context.Context, p *Plan, s NodeStatus) error {
	_, key := k.of(p, s)
	if key.Namespace == "" {
		return nil
	}
	secrets := p.anyOf(NodeStatus{APIVersion: "v1", Kind: "Secret", Namespace: key.Namespace, ObjectName: key.Name})
	is, err := secrets.Get(ctx, key.Name)
	if err == nil && p.Owns(is) {
		err = p.release(ctx, secrets, is)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("leave the outcome of %s %s: %w", s.Kind, s.ObjectName, err)
	}
	return nil
}

func (k inSecret) drop(ctx context.Context, p *Plan, s NodeStatus) error {
	secrets, key := k.of(p, s)
	if key.Namespace == "" {
		return nil
	}
	is, err := secrets.Get(ctx, key.Name)
	if err == nil && p.Owns(is) {
		if slices.Contains(is.Finalizers, outcomeFinalizer) {
			is, err = p.unguard(ctx, secrets, is)
		}
		if err == nil && is.DeletionTimestamp == nil {
			err = secrets.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: asSeen(is)})
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the outcome of %s %s: %w", s.Kind, s.ObjectName, err)
	}
	return nil
}
