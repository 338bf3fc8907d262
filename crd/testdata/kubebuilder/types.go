// Package kubebuilder has a kind as kubebuilder's users write it, with the
// markers of controller-gen. The definition beside it was made of it by
//
//	go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 \
//		crd:generateEmbeddedObjectMeta=true,maxDescLen=0 paths=./crd/testdata/kubebuilder output:crd:dir=./crd/testdata/kubebuilder
//
// +groupName=batch.example.com
// +versionName=v1
package kubebuilder

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=shifts,singular=shift,shortName=sh;shi,categories=all;work,scope=Namespaced
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`,description="When it runs",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:selectablefield:JSONPath=`.spec.mode`
// +kubebuilder:metadata:annotations="team=ops";"tier=1",labels="app=shift"
// +kubebuilder:deprecatedversion:warning="batch.example.com/v1 Shift is deprecated"
// +kubebuilder:storageversion
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() < 50",message="the name is too long"
// +genclient

// Shift is the Schema for the shifts API.
type Shift struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ShiftSpec   `json:"spec,omitempty"`
	Status ShiftStatus `json:"status,omitempty"`
}

// Mode tells how to treat work that is there.
// +kubebuilder:validation:Enum=Allow;Forbid;"Replace"
type Mode string

// Short is a short text.
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:Pattern=`^[a-z;,]+$`
type Short string

// Ports are ports.
// +kubebuilder:validation:MaxItems=5
// +kubebuilder:validation:items:Maximum=65535
// +kubebuilder:validation:items:Minimum=1
type Ports []int32

// ShiftSpec defines the desired state of Shift.
// +kubebuilder:validation:XValidation:rule="self.replicas <= self.limit",message="replicas must not be above limit",reason=FieldValueForbidden,fieldPath=".replicas"
// +kubebuilder:validation:ExactlyOneOf=one;other
type ShiftSpec struct {
	// +kubebuilder:validation:MinLength=1

	// Schedule in Cron format.
	Schedule string `json:"schedule"`

	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:validation:MultipleOf=2
	Replicas int32 `json:"replicas"`

	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:default=10
	Limit int64 `json:"limit,omitempty"`

	// +optional
	// +kubebuilder:default:=Allow
	Mode Mode `json:"mode"`

	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=10
	Short Short `json:"short,omitempty"`

	Ports Ports `json:"ports,omitempty"`

	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:MaxLength=5
	// +kubebuilder:validation:items:Format=hostname
	// +kubebuilder:default={a,b}
	Hosts []string `json:"hosts,omitempty"`

	// +listType=map
	// +listMapKey=name
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=10
	Parts []Part `json:"parts,omitempty"`

	// +mapType=atomic
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=3
	Labels map[string]string `json:"labels,omitempty"`

	// +structType=atomic
	Part *Window `json:"part,omitempty"`

	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Anything *runtime.RawExtension `json:"anything,omitempty"`

	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:EmbeddedResource
	Embedded runtime.RawExtension `json:"embedded,omitempty"`

	// +nullable
	// +kubebuilder:title=Suspended
	Suspend *bool `json:"suspend,omitempty"`

	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[0-9]+%?$`
	// +kubebuilder:validation:MaxLength=4
	Surge *intstr.IntOrString `json:"surge,omitempty"`

	// +kubebuilder:default={start: "a", count: 2}
	Window Window `json:"window,omitempty"`

	// +kubebuilder:validation:Format=date-time
	// +required
	At string `json:"at,omitempty"`

	One   *string `json:"one,omitempty"`
	Other *string `json:"other,omitempty"`

	// +kubebuilder:example="100Mi"
	Size resource.Quantity `json:"size,omitempty"`
	// +kubebuilder:validation:Type=string
	Timeout  metav1.Duration        `json:"timeout,omitempty"`
	Stamp    *metav1.Time           `json:"stamp,omitempty"`
	Data     []byte                 `json:"data,omitempty"`
	Ref      corev1.ObjectReference `json:"ref,omitempty"`
	Selector *metav1.LabelSelector  `json:"selector,omitempty"`

	Container corev1.Container                     `json:"container,omitempty"`
	Affinity  *corev1.Affinity                     `json:"affinity,omitempty"`
	Claim     corev1.PersistentVolumeClaimTemplate `json:"claim,omitempty"`
}

// Window is a window of time.
type Window struct {
	Start string `json:"start,omitempty"`
	// +k8s:minimum=1
	Count *int `json:"count,omitempty"`
}

// Part is a part.
type Part struct {
	Name string `json:"name"`
	// +default="plain"
	Kind string `json:"kind,omitempty"`
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="immutable"
	Fixed string `json:"fixed,omitempty"`
}

// ShiftStatus defines the observed state of Shift.
type ShiftStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Replicas   int32              `json:"replicas,omitempty"`
	Selector   string             `json:"selector,omitempty"`
}
