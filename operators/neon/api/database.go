package api

import (
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// A NeonDatabase is a PostgreSQL database on storage of its own. The operator makes a
// NeonCluster, a NeonProject, a NeonBranch, a NeonRole, a NeonBranchDatabase and a
// NeonEndpoint for it, with an object store and a controller database for development.
// The Secret NAME-connection says how to log in.
type NeonDatabase struct {
	kube.Object
	Spec struct {
		// Image of the computes, such as ghcr.io/neondatabase/compute-node-v17:TAG.
		ComputeImageRef string `json:"compute_image_ref" crd:"minLength=1"`
		// Image of the storage programs, such as ghcr.io/neondatabase/neon:TAG.
		NeonImageRef string `json:"neon_image_ref" crd:"minLength=1"`
		// Major version of PostgreSQL. The compute image must be of the same version.
		PostgresVersion string `json:"postgres_version" crd:"enum=14|15|16|17,column=Postgres,immutable"`
		// Suspended stops the compute. The data stays.
		Suspended bool `json:"suspended,omitempty"`
		// Time without queries after which the compute is suspended. 0 means never.
		SuspendAfterSeconds int32 `json:"suspend_after_seconds,omitempty" crd:"min=0"`
		// NetworkPolicies open the ports of the programs to those who need them, and close
		// them to all others.
		NetworkPolicies Switch `json:"network_policies,omitempty" crd:"enum=On|Off,default=On"`
		// TLS encrypts the connections to the HTTP interfaces of the programs, to the broker, and of
		// clients to the compute. The WAL service and the page service stay plain. TLS can be added and
		// removed while they run.
		TLS *TLS `json:"tls,omitempty"`
		// Whether the data outlives the NeonDatabase.
		DeletionPolicy DeletionPolicy `json:"deletion_policy" crd:"enum=Retain|Delete,default=Delete"`
	} `json:"spec"`
	Status struct {
		plan.Status `json:",inline"`
		// Host that clients connect to, at port 5432.
		Host string `json:"host,omitempty" crd:"column"`
	} `json:"status,omitzero"`
	_ struct{} `crd:"rule='self.metadata.name.matches(\"^[a-z][-a-z0-9]{0,29}$\")',message='the name must be a DNS label of at most 30 characters'"`
}

// GVK returns the kind.
func (NeonDatabase) GVK() kube.GVK {
	return kube.GVK{Group: "melenion.com", Version: "v1", Kind: "NeonDatabase"}
}
