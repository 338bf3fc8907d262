package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// Gizmo asks for a number of pods that run an image.
type Gizmo struct {
	kube.Object
	Spec   GizmoSpec   `json:"spec"`
	Status GizmoStatus `json:"status,omitzero"`
	_      struct{}    `crd:"rule='size(self.metadata.name) <= 63',message='a name has at most 63 characters'"`
}

// GVK returns the kind.
func (Gizmo) GVK() kube.GVK {
	return kube.GVK{Group: "gizmo.example.org", Version: "v1alpha1", Kind: "Gizmo"}
}

// The tag crd declares validation, defaults and the columns of kubectl get. The comments
// of types and fields become descriptions, which kubectl explain shows.

// GizmoSpec is the desired state.
type GizmoSpec struct {
	// Image of the pods.
	Image string `json:"image" crd:"minLength=1,column"`
	// Number of pods.
	Replicas int32 `json:"replicas" crd:"default=1,min=0,column"`
}

// GizmoStatus is the observed state. Only the operator writes it.
type GizmoStatus struct {
	// Number of pods that are ready.
	ReadyReplicas int32 `json:"readyReplicas" crd:"column=Ready"`
	// The condition Ready is true if all pods run the image and are available.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
