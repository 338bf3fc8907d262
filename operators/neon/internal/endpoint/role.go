package endpoint

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
)

// The keys of a role's Secret.
const (
	usernameKey = "username"
	passwordKey = "password"
	verifierKey = "verifier"
)

// RoleController returns the controller of NeonRoles.
func (op *Operator) RoleController() controller.Controller[api.NeonRole] {
	return controller.Controller[api.NeonRole]{
		For: op.Roles, Owns: []kube.AnyHandle{op.Secrets}, Reconcile: op.reconcileRole,
		Watches: []controller.Source{
			controller.Referenced(op.Secrets, givenPassword),
			controller.Mapped(op.Roles, func(ctx context.Context, r *api.NeonRole) []kube.Key {
				return roles.namesakes(r, op.rolesOn(ctx, r.Namespace, r.Spec.Branch))
			}),
		},
	}
}

// givenPassword returns the Secret that the spec of a role names.
func givenPassword(r *api.NeonRole) []kube.Key {
	if r.Spec.Password == nil {
		return nil
	}
	return []kube.Key{{Namespace: r.Namespace, Name: r.Spec.Password.Name}}
}

// reconcileRole makes the Secret of a role: its password, and the verifier that PostgreSQL
// keeps. Both are made once, because a verifier has a random salt: another one would be a
// change of the role.
func (op *Operator) reconcileRole(ctx context.Context, r *api.NeonRole) (controller.Action, error) {
	all, err := roles.usable(op.rolesOn(ctx, r.Namespace, r.Spec.Branch))
	if err != nil {
		return controller.Done, err
	}
	if said, refused := roles.refusal(r, all); refused {
		r.Status.Secret, r.Status.ObservedGeneration = "", r.Generation
		controller.SetCondition(r, &r.Status.Conditions.Conditions, said)
		return controller.Done, op.Roles.Status().Ensure(ctx, r)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name + "-password"}}
	is, err := op.Secrets.In(secret.Namespace).Cached().Get(ctx, secret.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Done, err
	}
	if is == nil {
		if gone, err := op.roleGone(ctx, r); err != nil || gone {
			return controller.Done, err
		}
	}
	var password string
	switch {
	case r.Spec.Password != nil:
		given, err := op.Secrets.In(r.Namespace).Cached().Get(ctx, r.Spec.Password.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return controller.Done, fmt.Errorf("get the password: %w", err)
		}
		if given != nil {
			password = string(given.Data[r.Spec.Password.Key])
		}
		if password == "" {
			return op.withoutPassword(ctx, r, is != nil) // the watch of Secrets tells when it is there
		}
	case is != nil && len(is.Data[passwordKey]) > 0:
		password = string(is.Data[passwordKey])
	default:
		password = rand.Text()
	}
	verifier := ""
	if is != nil {
		verifier = string(is.Data[verifierKey])
		secret.UID = is.UID // it is not made again if it has gone with the role
	}
	if !spec.Verifies(verifier, password) {
		verifier = spec.Verifier(password)
	}
	secret.Data = map[string][]byte{
		usernameKey: []byte(roleName(r)), passwordKey: []byte(password), verifierKey: []byte(verifier),
	}
	if err := kube.SetController(op.Roles, r, op.Secrets, secret); err != nil {
		return controller.Done, err
	}
	if _, err := op.Secrets.Ensure(ctx, secret); err != nil {
		return controller.Done, err
	}
	r.Status.Secret, r.Status.ObservedGeneration = secret.Name, r.Generation
	controller.SetCondition(r, &r.Status.Conditions.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Message: "the password is in Secret " + secret.Name,
	})
	return controller.Done, op.Roles.Status().Ensure(ctx, r)
}

// withoutPassword says that the password which a role is given is not there. One that it has had stays. A role
// that has none is left out of the configuration, which would fail as a whole.
func (op *Operator) withoutPassword(ctx context.Context, r *api.NeonRole, had bool) (controller.Action, error) {
	said := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "NoPassword",
		Message: fmt.Sprintf("make Secret %s with the key %s", r.Spec.Password.Name, r.Spec.Password.Key),
	}
	if had {
		said.Message += ": the former password stays until then"
	} else {
		r.Status.Secret = ""
	}
	r.Status.ObservedGeneration = r.Generation
	controller.SetCondition(r, &r.Status.Conditions.Conditions, said)
	return controller.Done, op.Roles.Status().Ensure(ctx, r)
}

// roleGone reports that a role is deleted although the store still has it. Its Secret goes with it, and
// the store can hear of that first.
func (op *Operator) roleGone(ctx context.Context, r *api.NeonRole) (bool, error) {
	is, err := op.Roles.In(r.Namespace).Get(ctx, r.Name)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether the role is there: %w", err)
	}
	return is.UID != r.UID || is.DeletionTimestamp != nil, nil
}

// DatabaseController returns the controller of NeonBranchDatabases.
func (op *Operator) DatabaseController() controller.Controller[api.NeonBranchDatabase] {
	return controller.Controller[api.NeonBranchDatabase]{
		For: op.Databases, Reconcile: op.reconcileDatabase,
		Watches: []controller.Source{
			controller.Referenced(op.Roles, ownerOf), // of any branch
			controller.Mapped(op.Databases, func(ctx context.Context, d *api.NeonBranchDatabase) []kube.Key {
				return databases.namesakes(d, op.databasesOn(ctx, d.Namespace, d.Spec.Branch))
			}),
		},
	}
}

// ownerOf returns the role that owns a database.
func ownerOf(d *api.NeonBranchDatabase) []kube.Key {
	return []kube.Key{{Namespace: d.Namespace, Name: d.Spec.Owner}}
}

// reconcileDatabase says whether a database has its name and a usable owner. The endpoint that writes to the
// branch makes it.
func (op *Operator) reconcileDatabase(ctx context.Context, d *api.NeonBranchDatabase) (controller.Action, error) {
	all, err := databases.usable(op.databasesOn(ctx, d.Namespace, d.Spec.Branch))
	if err != nil {
		return controller.Done, err
	}
	said, err := op.owned(ctx, d)
	if err != nil {
		return controller.Done, err
	}
	if why, refused := databases.refusal(d, all); refused {
		said = why
	}
	controller.SetCondition(d, &d.Status.Conditions.Conditions, said)
	d.Status.ObservedGeneration = d.Generation
	return controller.Done, op.Databases.Status().Ensure(ctx, d)
}

// owned says whether the owner of a database is in the configuration of its branch's endpoints. Without the
// owner, the database is left out.
func (op *Operator) owned(ctx context.Context, d *api.NeonBranchDatabase) (metav1.Condition, error) {
	not := func(reason, format string, args ...any) (metav1.Condition, error) {
		return metav1.Condition{
			Type: "Ready", Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...),
		}, nil
	}
	owner, err := op.Roles.In(d.Namespace).Cached().Get(ctx, d.Spec.Owner)
	switch {
	case apierrors.IsNotFound(err):
		return not("NoOwner", "there is no NeonRole %s", d.Spec.Owner)
	case err != nil:
		return metav1.Condition{}, err
	case owner.Spec.Branch != d.Spec.Branch:
		return not("OtherBranch", "NeonRole %s is of branch %s", owner.Name, owner.Spec.Branch)
	case owner.DeletionTimestamp != nil:
		return not("OwnerNotReady", "NeonRole %s is being deleted", owner.Name)
	}
	all, err := roles.usable(op.rolesOn(ctx, d.Namespace, d.Spec.Branch))
	if err != nil {
		return metav1.Condition{}, err
	}
	if why, refused := roles.refusal(owner, all); refused {
		return not("OwnerRefused", "NeonRole %s, its owner, cannot be: %s: %s", owner.Name, why.Reason, why.Message)
	}
	if owner.Status.Secret == "" {
		return not("OwnerNotReady", "NeonRole %s has no password yet: its own condition says why", owner.Name)
	}
	return metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Message: "it is in the configuration of the branch's endpoints",
	}, nil
}
