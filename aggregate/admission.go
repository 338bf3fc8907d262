package aggregate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// admit sets the admission of an object, before it is stored. The cluster's admission
// (terminating namespaces, webhooks and policies) is applied here, because kube-apiserver
// passes on requests for aggregated kinds without it. Then come the functions of the kinds.
func admit(c *genericapiserver.Config, all kinds, cluster informers.SharedInformerFactory, client kubernetes.Interface, config *rest.Config) error {
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	err = options.NewAdmissionOptions().ApplyTo(c, cluster, client, untyped, utilfeature.DefaultFeatureGate, c.EffectiveVersion)
	if err != nil {
		return fmt.Errorf("make admission: %w", err)
	}
	c.AdmissionControl = functions{Interface: c.AdmissionControl, kinds: all}
	return nil
}

// functions calls Default and Validate of the kinds around the admission of the cluster.
type functions struct {
	admission.Interface
	kinds kinds
}

// Handles reports whether an operation may change an object or be refused.
func (f functions) Handles(o admission.Operation) bool {
	return o == admission.Create || o == admission.Update || f.Interface.Handles(o)
}

// Admit defaults an object first, so that webhooks see it complete.
func (f functions) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if r, object := f.concerned(a); r != nil && r.defaults != nil {
		if err := r.defaults(ctx, object); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("default %s: %w", r.definition.Spec.Names.Kind, err))
		}
	}
	if next, ok := f.Interface.(admission.MutationInterface); ok && next.Handles(a.GetOperation()) {
		return next.Admit(ctx, a, o)
	}
	return nil
}

// Validate is called with an object that fits the schema.
func (f functions) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if next, ok := f.Interface.(admission.ValidationInterface); ok && next.Handles(a.GetOperation()) {
		if err := next.Validate(ctx, a, o); err != nil {
			return err
		}
	}
	r, object := f.concerned(a)
	if r == nil || r.validate == nil {
		return nil
	}
	old, _ := a.GetOldObject().(*unstructured.Unstructured)
	wrong, err := r.validate(ctx, object, old)
	switch {
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("validate %s: %w", r.definition.Spec.Names.Kind, err))
	case len(wrong) > 0:
		return apierrors.NewInvalid(a.GetKind().GroupKind(), cmp.Or(a.GetName(), object.GetName()), wrong)
	}
	return nil
}

// concerned returns the object and its kind if a request writes the object as a whole.
func (f functions) concerned(a admission.Attributes) (*resource, *unstructured.Unstructured) {
	object, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok || a.GetSubresource() != "" || a.GetOperation() != admission.Create && a.GetOperation() != admission.Update {
		return nil, nil
	}
	return f.kinds.named(a.GetResource().Group, a.GetResource().Resource), object
}

// decode returns the object as the program's type.
func decode[T any](u *unstructured.Unstructured) (*T, error) {
	if u == nil {
		return nil, nil
	}
	data, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	t := new(T)
	if err := json.Unmarshal(data, t); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	return t, nil
}
