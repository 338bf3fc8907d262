// Package api declares the kind Echo of operators/echo as a user of controller-runtime
// would: fields with JSON tags and markers, and a scheme to add the kind to. controller-gen
// makes the deep copies and the CustomResourceDefinition from it: go generate ./peerecho/...
//
// +kubebuilder:object:generate=true
// +groupName=example.com
// +versionName=v1
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd paths=. output:crd:dir=../crd

// GroupVersion is the group and version of Echo.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// ConditionReady is the type of the condition that says whether all servers answer.
const ConditionReady = "Ready"

// An Echo asks for echo servers behind a Service of its own name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=echoes,shortName=echo
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name=Replicas,type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name=Ready,type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z][-a-z0-9]{0,62}$')",message="not a name for a Service"
type Echo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              EchoSpec   `json:"spec"`
	Status            EchoStatus `json:"status,omitzero"`
}

// EchoSpec is the desired state.
type EchoSpec struct {
	// Number of servers.
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// Image of the servers, which listen on port 8080.
	// +kubebuilder:default=inanimate/echo-server
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`
}

// EchoStatus is the observed state.
type EchoStatus struct {
	Replicas      int32              `json:"replicas"`
	ReadyReplicas int32              `json:"readyReplicas"`
	Selector      string             `json:"selector,omitempty"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
}

// EchoList is a list of Echoes.
//
// +kubebuilder:object:root=true
type EchoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Echo `json:"items"`
}

// AddToScheme registers the kind in a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Echo{}, &EchoList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
