package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// A NeonEndpoint is a PostgreSQL that serves a branch. The Service of its name leads to it,
// and for each NeonRole of the branch a Secret says how to log in. If the endpoint is suspended
// while it is idle, the Secret leads through the operator's proxy, which resumes it.
type NeonEndpoint struct {
	kube.Object
	Spec   EndpointSpec   `json:"spec"`
	Status EndpointStatus `json:"status,omitzero"`
	_      struct{}       `crd:"rule='self.metadata.name.matches(\"^[a-z][-a-z0-9]{0,39}$\")',message='the name must be a DNS label of at most 40 characters'"`
}

// Resume is the annotation that resumes a NeonEndpoint which is suspended because it was
// idle. Its value is a time in the form of RFC 3339.
const Resume = "neon.pintle.dev/resume"

// GVK returns the kind.
func (NeonEndpoint) GVK() kube.GVK { return gvk("NeonEndpoint") }

// EndpointType says what an endpoint serves.
type EndpointType string

const (
	// ReadWrite is the one endpoint of a branch that writes. A second one waits until the first is
	// deleted or moved to another branch.
	ReadWrite EndpointType = "ReadWrite"
	// ReadOnly follows the branch.
	ReadOnly EndpointType = "ReadOnly"
	// Static shows the branch as it was at one position.
	Static EndpointType = "Static"
)

// EndpointSpec is the wanted state of a NeonEndpoint.
type EndpointSpec struct {
	// Name of the NeonBranch, in the same namespace. Another name moves the endpoint to
	// another branch, as for a restore.
	Branch string `json:"branch" crd:"minLength=1,column"`
	// Type of the endpoint.
	Type EndpointType `json:"type" crd:"enum=ReadWrite|ReadOnly|Static,default=ReadWrite,immutable,column"`
	// LSN that a Static endpoint shows.
	LSN LSN `json:"lsn,omitempty" crd:"pattern='^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$'"`
	// Suspended stops the compute. The address stays.
	Suspended bool `json:"suspended,omitempty"`
	// Time without queries after which the compute is suspended. 0 means never.
	SuspendAfterSeconds int32 `json:"suspendAfterSeconds,omitempty" crd:"min=0"`
	// Resources of the compute's pod. Half of its memory is the size of its cache of pages, a file on the
	// node's disk. ephemeral-storage is that disk: the limit is 10 GiB and the size of the cache by
	// default.
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// Settings of PostgreSQL, by name.
	Settings map[string]string `json:"settings,omitempty"`
	_        struct{}          `crd:"rule='(self.type == \"Static\") == has(self.lsn)',message='a Static endpoint needs lsn, and no other has it'"`
}

// EndpointStatus is the observed state of a NeonEndpoint.
type EndpointStatus struct {
	plan.Status `json:",inline"`
	// Phase is Starting, Running, Suspending or Suspended.
	Phase string `json:"phase,omitempty" crd:"column"`
	// Host that clients connect to, as the Secrets of the roles have it: that of the operator's proxy
	// if spec.suspendAfterSeconds is set.
	Host string `json:"host,omitempty" crd:"column"`
	// LastActive is the time of the last query that the compute has seen, or of its start. It
	// can be late by five minutes.
	LastActive metav1.Time `json:"lastActive,omitzero" crd:"column=Last active,columnType=date"`
	// IdleSince is set while the endpoint is suspended because it was idle. A client that
	// connects through the proxy resumes it, as does the annotation neon.pintle.dev/resume
	// with a later time.
	IdleSince metav1.Time `json:"idleSince,omitzero"`
	// Applied tells the configuration that the compute runs with, and since when it runs.
	Applied string `json:"applied,omitempty"`
	// Timeline that the compute serves.
	Timeline string `json:"timeline,omitempty"`
	// Generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
