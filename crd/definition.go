package crd

import (
	"fmt"
	"reflect"

	"github.com/pintle-go/pintle/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Definition is a CustomResourceDefinition of apiextensions.k8s.io/v1. [Of] makes one
// from a Go type. The fields may be changed before the definition is installed. It has
// every field that structural schemas may have. [Install] does not change fields that
// Definition lacks, such as settings of conversion webhooks that later Kubernetes
// versions add. Its counterpart is CustomResourceDefinition of
// k8s.io/apiextensions-apiserver.
type Definition struct {
	kube.Object
	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`

	err    error        // of [Of] or [Join]
	stored bool         // a marker makes its version the storage version
	goType reflect.Type // of the first version
	pairs  pairs        // of [Converts], one for each other version
}

// Err returns the mistake in the type or the options that the definition was made of, or
// nil. [Install], [Join], [Definition.YAML] and the other packages that
// take a definition return it too. A definition with a mistake has neither name nor
// versions.
func (d *Definition) Err() error { return d.err }

// GVK names the kind for [kube.For]. Its counterpart is SchemeGroupVersion of
// k8s.io/apiextensions-apiserver, with the kind.
func (Definition) GVK() kube.GVK {
	return kube.GVK{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

// kind has the plural and the scope, so that no request asks the server for them.
var kind = kube.Kind{Plural: "customresourcedefinitions", Scope: kube.ClusterScoped}

// Spec is the desired state of the definition.
type Spec struct {
	Group      string      `json:"group"`
	Names      Names       `json:"names"`
	Scope      kube.Scope  `json:"scope"`
	Versions   []Version   `json:"versions"`
	Conversion *Conversion `json:"conversion,omitempty"`
}

// Names are the names of a resource.
type Names struct {
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Kind       string   `json:"kind"`
	ListKind   string   `json:"listKind,omitempty"`
	Categories []string `json:"categories,omitempty"`
}

// Version is one version of a resource. Objects are stored in exactly one version.
type Version struct {
	Name               string            `json:"name"`
	Served             bool              `json:"served"`
	Storage            bool              `json:"storage"`
	Deprecated         bool              `json:"deprecated,omitempty"`
	DeprecationWarning string            `json:"deprecationWarning,omitempty"`
	Schema             Validation        `json:"schema,omitzero"`
	Subresources       *Subresources     `json:"subresources,omitempty"`
	Columns            []Column          `json:"additionalPrinterColumns,omitempty"`
	SelectableFields   []SelectableField `json:"selectableFields,omitempty"`
}

// Validation holds the schema of a version.
type Validation struct {
	OpenAPIV3Schema *Schema `json:"openAPIV3Schema,omitempty"`
}

// Subresources are the parts of an object that are written separately.
type Subresources struct {
	Status *struct{} `json:"status,omitempty"`
	Scale  *Scale    `json:"scale,omitempty"`
}

// Scale gives the paths of the fields that the scale subresource shows and sets. A path
// has the form .spec.replicas. In controller-tools it is +kubebuilder:subresource:scale.
type Scale struct {
	SpecReplicasPath   string `json:"specReplicasPath"`
	StatusReplicasPath string `json:"statusReplicasPath"`
	// LabelSelectorPath is the path of a string in status. The string is the selector of
	// the pods, which a HorizontalPodAutoscaler needs.
	LabelSelectorPath string `json:"labelSelectorPath,omitempty"`
}

// Column is a column of kubectl get. In controller-tools it is +kubebuilder:printcolumn.
type Column struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // integer, number, string, boolean or date
	Format      string `json:"format,omitempty"`
	Description string `json:"description,omitempty"`
	// A Priority above 0 shows the column only with -o wide.
	Priority int32  `json:"priority,omitempty"`
	JSONPath string `json:"jsonPath"`
}

// SelectableField is a field that field selectors may name. In controller-tools it is
// +kubebuilder:selectablefield.
type SelectableField struct {
	JSONPath string `json:"jsonPath"`
}

// Conversion describes the conversion of objects between versions.
type Conversion struct {
	// Strategy is None or Webhook. None changes apiVersion only.
	Strategy string             `json:"strategy"`
	Webhook  *WebhookConversion `json:"webhook,omitempty"`
}

// WebhookConversion is the webhook of the Webhook strategy.
type WebhookConversion struct {
	ClientConfig             *WebhookClientConfig `json:"clientConfig,omitempty"`
	ConversionReviewVersions []string             `json:"conversionReviewVersions"`
}

// WebhookClientConfig is the address of a webhook: a URL or a Service.
type WebhookClientConfig struct {
	URL      *string           `json:"url,omitempty"`
	Service  *ServiceReference `json:"service,omitempty"`
	CABundle []byte            `json:"caBundle,omitempty"`
}

// ServiceReference names a Service.
type ServiceReference struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Path      *string `json:"path,omitempty"`
	Port      *int32  `json:"port,omitempty"`
}

// Status is the state that the API server reports.
type Status struct {
	// Conditions are Established, NamesAccepted, NonStructuralSchema, Terminating and others.
	Conditions     []metav1.Condition `json:"conditions,omitempty"`
	AcceptedNames  Names              `json:"acceptedNames,omitzero"`
	StoredVersions []string           `json:"storedVersions,omitempty"`
}

// condition returns the state of a condition, with its message and reason.
func (s *Status) condition(name string) (status metav1.ConditionStatus, words string) {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == name {
			return c.Status, c.Message + " (" + c.Reason + ")"
		}
	}
	return metav1.ConditionUnknown, ""
}

// Version returns the version with this name, or nil. The result points into d: a change
// to it changes d.
func (d *Definition) Version(name string) *Version {
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Name == name {
			return &d.Spec.Versions[i]
		}
	}
	return nil
}

// YAML returns the definition for kubectl apply, always in the same order, without a line
// of dashes.
func (d *Definition) YAML() ([]byte, error) {
	if d.err != nil {
		return nil, d.err
	}
	// The manifest has no status, because the server writes it.
	wanted := struct {
		kube.Object
		Spec Spec `json:"spec"`
	}{d.Object, d.Spec}
	wanted.SetGroupVersionKind(d.GVK())
	data, err := yaml.Marshal(wanted)
	if err != nil {
		return nil, fmt.Errorf("encode CustomResourceDefinition %s: %w", d.Name, err)
	}
	return data, nil
}
