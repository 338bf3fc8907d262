package webhook

import (
	"regexp"

	"github.com/pintle-go/pintle/kube"
)

// subresource implements [Target].
type subresource[S any] struct {
	of   kube.AnyHandle
	name string
}

// Sub names a subresource of the objects of a handle, as in its URL. S is the type of the objects that
// are written there:
//
//	webhook.Sub[autoscalingv1.Scale](deployments, "scale")
//	webhook.Sub[policyv1.Eviction](pods, "eviction")
//	webhook.Sub[corev1.PodExecOptions](pods, "exec")
//	webhook.Sub[Book](books, "status")
func Sub[S any](of kube.AnyHandle, name string) Target[S] { return subresource[S]{of, name} }

// Kind returns the kind of the objects that have the subresource.
func (s subresource[S]) Kind() kube.Kind {
	if isNil(s.of) {
		return kube.Kind{}
	}
	return s.of.Kind()
}

// Namespaces returns the namespaces to which the handle is narrowed. None means all.
func (s subresource[S]) Namespaces() []string {
	if isNil(s.of) {
		return nil
	}
	return s.of.Namespaces()
}

// Err returns the mistake in making the handle, or nil if there is none.
func (s subresource[S]) Err() error {
	if isNil(s.of) {
		return errNoHandle
	}
	return s.of.Err()
}

// ReadOnly returns a handle that only tells the type.
func (s subresource[S]) ReadOnly() kube.Reader[S] { return kube.Reader[S]{} }

func (s subresource[S]) part() string { return s.name }

func validSubresource(name string) bool {
	return regexp.MustCompile(`^[a-z][a-z0-9]*$`).MatchString(name)
}
