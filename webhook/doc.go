// Package webhook has the admission webhooks of a program: functions that the API server asks before it
// writes an object. Its counterpart is package webhook/admission of controller-runtime.
//
// A [Hook] is one function for one kind. [Validate] refuses objects, [Default] completes objects of an
// own kind, and [Mutate] changes objects of any kind. All take a handle of package kube, from which the
// rule follows: group, version, resource and scope. [Sub] names a subresource, such as scale. [Settings]
// has the other parts of a rule.
//
//	books := kube.For[Book](client)
//	validate := webhook.Validate(books, webhook.Checks[Book]{Create: check})
//	defaults := webhook.Default(books, func(_ context.Context, b *Book) error {
//		b.Spec.Shelf = cmp.Or(b.Spec.Shelf, "new")
//		return nil
//	})
//
// [Handler] answers the API server, and [Registration.Configurations] renders the objects that lead
// it there. Package webhook/webhooktest registers hooks for a test.
//
// # Where a rule belongs
//
// A request meets a default of the definition's schema first, then a rule of the definition, then a
// policy (ValidatingAdmissionPolicy and MutatingAdmissionPolicy), and a webhook last. Choose the first
// that can say it: all but the webhook work while the program is away.
//
// # Guarantees
//
// A function reads an object as a reconcile does. The patch of a mutation is the difference that the
// function made, and nothing else: fields that the Go type does not have stay, also in the items of
// lists. It is applied before it is sent, and the outcome is compared. A change that cannot be carried
// over, for example to a list whose items cannot be told apart, fails with a text that says so. So does a
// change of name, namespace or metadata that the server owns, and of the status.
//
// An update is validated if and only if it changes anything but metadata and status, whether or not the
// object is being deleted. So a rule that is new refuses neither the removal of a finalizer nor a change
// of labels. Mutations do not run while an object is being deleted.
//
// Every call is answered before the API server gives up on it. A function that panics or takes too long
// is a failed call: the failure policy decides. The body of a request and the bytes of all requests at a
// time are bounded.
//
// # Caveats
//
// A subresource is a resource of its own: a change by way of scale or status is not validated by the
// hook of the main resource. Bound replicas by a rule of the definition.
//
// Uniqueness cannot be enforced by admission: two creates that pass at the same time see neither the
// other. A reconcile has to look again. A function gets no client: a cached read is stale or not there
// yet when an object is admitted.
//
// A field that a mutation sets on a server-side apply belongs to the applier. The next apply without
// the field removes it, and the mutation sets it again: tools that compare show it. A default in the
// schema of a definition has no such effect.
//
// Everybody in the cluster may call a hook, because API servers show no certificate unless their
// administrator gives them one. Answers must hold no secrets.
//
// # Sources
//
// The protocol: k8s.io/api/admission/v1 and k8s.io/apiserver/pkg/admission/plugin/webhook, and
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/.
// Good practices: https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/.
package webhook
