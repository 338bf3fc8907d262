package aggregate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// admit sets the admission of an object, before it is stored. The cluster's admission
// (terminating namespaces, webhooks, policies and quotas) is applied here, because
// kube-apiserver passes on requests for aggregated kinds without it. Before it come the functions of
// the kinds.
func admit(c *genericapiserver.RecommendedConfig, all kinds, client kubernetes.Interface) error {
	untyped, err := dynamic.NewForConfig(c.ClientConfig)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	o := options.NewAdmissionOptions()
	resourcequota.Register(o.Plugins)
	o.RecommendedPluginOrder = append(o.RecommendedPluginOrder, resourcequota.PluginName)
	if o.DisablePlugins, err = missingPolicies(client); err != nil {
		return err
	}
	cluster, features := c.SharedInformerFactory, utilfeature.DefaultFeatureGate
	if err := o.ApplyTo(&c.Config, cluster, client, untyped, features, c.EffectiveVersion, counting{}); err != nil {
		return fmt.Errorf("make admission: %w", err)
	}
	// The cluster comes last: its webhooks see a complete object, and its quota counts each that it admits.
	own := functions{admission.NewHandler(admission.Create, admission.Update), all}
	c.AdmissionControl = admission.NewChainHandler(own, c.AdmissionControl)
	return nil
}

// missingPolicies returns the plugins whose policies the cluster is too old to have. They
// would wait for them for ever, and refuse all requests meanwhile.
func missingPolicies(client kubernetes.Interface) (plugins []string, err error) {
	served, err := client.Discovery().ServerResourcesForGroupVersion(admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return nil, fmt.Errorf("look for admission policies: %w", err)
	}
	for plugin, plural := range map[string]string{
		mutating.PluginName: "mutatingadmissionpolicies", validating.PluginName: "validatingadmissionpolicies",
	} {
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }) {
			plugins = append(plugins, plugin)
		}
	}
	return plugins, nil
}

// counting makes the quota count objects, as it does for all kinds that it does not know.
type counting struct{}

// Initialize is called for each plugin.
func (counting) Initialize(plugin admission.Interface) {
	if quota, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		quota.SetQuotaConfiguration(generic.NewConfiguration(nil, nil))
	}
}

// functions is the admission by Default and Validate of the kinds.
type functions struct {
	*admission.Handler // of the operations that have an object
	kinds              kinds
}

// Admit defaults an object.
func (f functions) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if r, object := f.concerned(a); r != nil && r.defaults != nil {
		if err := r.defaults(ctx, object); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("default %s: %w", r.kind.Kind, err))
		}
	}
	return nil
}

// Validate is called with an object that fits the schema.
func (f functions) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	r, object := f.concerned(a)
	if r == nil || r.validate == nil {
		return nil
	}
	old, _ := a.GetOldObject().(*unstructured.Unstructured)
	if wrong := r.validate(ctx, object, old); len(wrong) > 0 {
		return apierrors.NewInvalid(a.GetKind().GroupKind(), cmp.Or(a.GetName(), object.GetName()), wrong)
	}
	return nil
}

// concerned returns the object and its kind if a request writes the object as a whole.
func (f functions) concerned(a admission.Attributes) (*resource, *unstructured.Unstructured) {
	object, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok || a.GetSubresource() != "" {
		return nil, nil
	}
	return f.kinds.named(a.GetResource().GroupResource()), object
}
