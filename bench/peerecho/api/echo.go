// Package api declares the kind Echo of operators/echo as a user of controller-runtime
// would: fields with JSON tags, copies as controller-gen makes them, and a scheme to add
// them to. Its CustomResourceDefinition is the one that the Echo operator installs.
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of Echo.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// ConditionReady is the type of the condition that says whether all servers answer.
const ConditionReady = "Ready"

// An Echo asks for echo servers behind a Service of its own name.
type Echo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              EchoSpec   `json:"spec"`
	Status            EchoStatus `json:"status,omitzero"`
}

// EchoSpec is the desired state.
type EchoSpec struct {
	Replicas int32  `json:"replicas"`
	Image    string `json:"image,omitempty"` // the server has a default
}

// EchoStatus is the observed state.
type EchoStatus struct {
	Replicas      int32              `json:"replicas"`
	ReadyReplicas int32              `json:"readyReplicas"`
	Selector      string             `json:"selector,omitempty"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
}

// EchoList is a list of Echoes.
type EchoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Echo `json:"items"`
}

// DeepCopyInto copies everything.
func (in *EchoStatus) DeepCopyInto(out *EchoStatus) {
	*out = *in
	if in.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(in.Conditions))
		for i := range in.Conditions {
			in.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
}

// DeepCopyInto copies everything.
func (in *Echo) DeepCopyInto(out *Echo) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	in.Status.DeepCopyInto(&out.Status)
}

// DeepCopyObject copies everything.
func (in *Echo) DeepCopyObject() runtime.Object {
	out := new(Echo)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies everything.
func (in *EchoList) DeepCopyObject() runtime.Object {
	out := &EchoList{TypeMeta: in.TypeMeta}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Echo, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}

// AddToScheme registers the kind in a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Echo{}, &EchoList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
