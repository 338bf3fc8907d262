package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/kube"
)

var errNoHandle = errors.New("the handle is nil")

// FailurePolicy decides about a request if a call of a hook fails.
type FailurePolicy string

const (
	// Fail refuses the request.
	Fail FailurePolicy = "Fail"
	// Ignore goes on as if there were no hook. A reconcile has to check again.
	Ignore FailurePolicy = "Ignore"
)

// Settings are the parts of a hook's rule that do not follow from its handle. The zero value is right
// for most hooks. Its counterparts are the markers +kubebuilder:webhook of controller-tools.
type Settings struct {
	// FailurePolicy is Fail for an own kind by default, because nothing else in the cluster uses it, and
	// Ignore for a kind of Kubernetes. There Fail needs Objects or Namespaces: a program that is away
	// must not stop the cluster.
	FailurePolicy FailurePolicy

	// Timeout is in whole seconds, up to 30. By default it is 5 seconds for an own kind and 2 seconds
	// for a kind of Kubernetes. A function has half a second less.
	Timeout time.Duration

	// When has conditions in CEL, by name, as matchConditions of a configuration. All must hold for the
	// API server to call the hook: "request.userInfo.username != 'system:admin'".
	When map[string]string

	// Objects is a selector of labels, such as "app=web". The object must match it, or must have
	// matched it before an update. Users choose labels: it is no border of security.
	Objects string

	// Namespaces is a selector of the labels of the object's namespace. It has no effect on kinds that
	// have no namespace.
	Namespaces string

	// SideEffects: the function changes something besides the object. It is not called for dry runs.
	SideEffects bool
}

// The limits of the API server.
const (
	maxTimeout    = 30 * time.Second
	maxConditions = 64
)

const (
	ownTimeout     = 5 * time.Second
	builtinTimeout = 2 * time.Second
)

func (s Settings) check(own bool, kind kube.Kind) error {
	for _, selector := range []string{s.Objects, s.Namespaces} {
		if _, err := metav1.ParseToLabelSelector(selector); err != nil {
			return fmt.Errorf("parse label selector %q: %w", selector, err)
		}
	}
	// The labels of a namespace choose no objects that have none.
	narrow := s.Objects != "" || s.Namespaces != "" && kind.Scope != kube.ClusterScoped
	switch {
	case s.FailurePolicy != "" && s.FailurePolicy != Fail && s.FailurePolicy != Ignore:
		return fmt.Errorf("the failure policy %q is neither %s nor %s", s.FailurePolicy, Fail, Ignore)
	case s.FailurePolicy == Fail && !own && !narrow:
		return errors.New("the failure policy Fail for a kind of Kubernetes needs a selector: set Objects or Namespaces")
	case s.Timeout < 0 || s.Timeout > maxTimeout || s.Timeout%time.Second != 0:
		return fmt.Errorf("the timeout %v is not a number of seconds from 1 to 30", s.Timeout)
	case len(s.When) > maxConditions:
		return fmt.Errorf("%d conditions are more than %d", len(s.When), maxConditions)
	}
	for _, name := range slices.Sorted(maps.Keys(s.When)) {
		if why := validation.IsQualifiedName(name); len(why) > 0 {
			return fmt.Errorf("the condition's name %q: %s", name, why[0])
		}
		if s.When[name] == "" {
			return fmt.Errorf("the condition %q is empty", name)
		}
	}
	return nil
}

// policy returns the failure policy of a hook.
func (h *hook) policy() FailurePolicy {
	if h.isOwn() {
		return cmp.Or(h.settings.FailurePolicy, Fail)
	}
	return cmp.Or(h.settings.FailurePolicy, Ignore)
}

// timeout returns the time after which the API server gives up on a call.
func (h *hook) timeout() time.Duration {
	if h.isOwn() {
		return cmp.Or(h.settings.Timeout, ownTimeout)
	}
	return cmp.Or(h.settings.Timeout, builtinTimeout)
}

// refused reports whether a cluster cannot be repaired while a hook for a kind is away: its nodes, its
// leases, its definitions, and its questions about rights. The server asks no hook about hooks and
// policies.
func refused(kind kube.GVK) bool {
	switch kind.Group {
	case "":
		return kind.Kind == "Node"
	case "coordination.k8s.io", "apiregistration.k8s.io", "apiextensions.k8s.io", "authentication.k8s.io",
		"authorization.k8s.io", "admissionregistration.k8s.io":
		return true
	}
	return false
}
