package crd

import (
	"encoding/json"
	"fmt"

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

	err    error // of [Of] or [Join]
	stored bool  // a marker makes its version the storage version
}

// Err returns the mistake in the type or the options that the definition was made of, or
// nil. [Install], [Join], [Definition.JSON], [Definition.YAML] and the other packages that
// take a definition return it too. A definition with a mistake has neither name nor
// versions.
func (d *Definition) Err() error { return d.err }

// GVK names the kind.
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

// condition returns a condition without its time.
func (s Status) condition(name string) metav1.Condition {
	for _, c := range s.Conditions {
		if c.Type == name {
			return metav1.Condition{Type: name, Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
	}
	return metav1.Condition{Type: name, Status: metav1.ConditionUnknown}
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

// JSON returns the definition for kubectl apply, always in the same order.
func (d *Definition) JSON() ([]byte, error) {
	if d.err != nil {
		return nil, d.err
	}
	// The manifest has no status, because the server writes it.
	wanted := struct {
		kube.Object
		Spec Spec `json:"spec"`
	}{d.Object, d.Spec}
	wanted.SetGroupVersionKind(d.GVK())
	data, err := json.Marshal(wanted)
	if err != nil {
		return nil, fmt.Errorf("encode CustomResourceDefinition %s: %w", d.Name, err)
	}
	return data, nil
}

// YAML returns the definition for kubectl apply, always in the same order, without a line
// of dashes.
func (d *Definition) YAML() ([]byte, error) {
	data, err := d.JSON()
	if err != nil {
		return nil, err
	}
	if data, err = yaml.JSONToYAML(data); err != nil {
		return nil, fmt.Errorf("write CustomResourceDefinition %s as YAML: %w", d.Name, err)
	}
	return data, nil
}

// Schema is a structural OpenAPI v3 schema, with the fields of apiextensions.k8s.io/v1.
// Its counterpart is JSONSchemaProps of k8s.io/apiextensions-apiserver.
type Schema struct {
	Title            string            `json:"title,omitempty"`
	Description      string            `json:"description,omitempty"`
	Type             string            `json:"type,omitempty"`
	Format           string            `json:"format,omitempty"`
	Nullable         bool              `json:"nullable,omitempty"`
	Default          json.RawMessage   `json:"default,omitempty"`
	Enum             []json.RawMessage `json:"enum,omitempty"`
	Minimum          *float64          `json:"minimum,omitempty"`
	ExclusiveMinimum bool              `json:"exclusiveMinimum,omitempty"`
	Maximum          *float64          `json:"maximum,omitempty"`
	ExclusiveMaximum bool              `json:"exclusiveMaximum,omitempty"`
	MultipleOf       *float64          `json:"multipleOf,omitempty"`
	MinLength        *int64            `json:"minLength,omitempty"`
	MaxLength        *int64            `json:"maxLength,omitempty"`
	Pattern          string            `json:"pattern,omitempty"`
	MinItems         *int64            `json:"minItems,omitempty"`
	MaxItems         *int64            `json:"maxItems,omitempty"`
	MinProperties    *int64            `json:"minProperties,omitempty"`
	MaxProperties    *int64            `json:"maxProperties,omitempty"`
	Required         []string          `json:"required,omitempty"`

	Items                *Schema            `json:"items,omitempty"`
	Properties           map[string]*Schema `json:"properties,omitempty"`
	AdditionalProperties *SchemaOrBool      `json:"additionalProperties,omitempty"`

	AllOf []*Schema `json:"allOf,omitempty"`
	OneOf []*Schema `json:"oneOf,omitempty"`
	AnyOf []*Schema `json:"anyOf,omitempty"`
	Not   *Schema   `json:"not,omitempty"`

	PreserveUnknownFields bool     `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	EmbeddedResource      bool     `json:"x-kubernetes-embedded-resource,omitempty"`
	IntOrString           bool     `json:"x-kubernetes-int-or-string,omitempty"`
	ListType              string   `json:"x-kubernetes-list-type,omitempty"`
	ListMapKeys           []string `json:"x-kubernetes-list-map-keys,omitempty"`
	MapType               string   `json:"x-kubernetes-map-type,omitempty"`
	Rules                 []Rule   `json:"x-kubernetes-validations,omitempty"`
}

// Rule is a validation rule in CEL, an entry of x-kubernetes-validations. In
// controller-tools it is +kubebuilder:validation:XValidation.
type Rule struct {
	Rule              string `json:"rule"`
	Message           string `json:"message,omitempty"`
	MessageExpression string `json:"messageExpression,omitempty"`
	Reason            string `json:"reason,omitempty"`
	FieldPath         string `json:"fieldPath,omitempty"`
	OptionalOldSelf   *bool  `json:"optionalOldSelf,omitempty"`
}

// SchemaOrBool is the schema of a map's values. Without a schema it says whether there
// may be any value.
type SchemaOrBool struct {
	Allows bool
	Schema *Schema
}

// MarshalJSON encodes the schema or, without a schema, the boolean.
func (s SchemaOrBool) MarshalJSON() ([]byte, error) {
	if s.Schema != nil {
		return json.Marshal(s.Schema)
	}
	return json.Marshal(s.Allows)
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (s *SchemaOrBool) UnmarshalJSON(data []byte) error {
	if string(data) == "true" || string(data) == "false" {
		*s = SchemaOrBool{Allows: string(data) == "true"}
		return nil
	}
	*s = SchemaOrBool{Allows: true, Schema: new(Schema)}
	return json.Unmarshal(data, s.Schema)
}

// values returns the schema of a map's values, or nil.
func (s *Schema) values() *Schema {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}
