package api

import (
	"github.com/pintle-go/pintle/kube"
)

// A NeonRole is a user of a branch, who may log in. Deleting the object leaves the role in
// PostgreSQL: drop it with SQL. The operator makes a password once and
// keeps it in the Secret NAME-password, unless the spec names another Secret.
type NeonRole struct {
	kube.Object
	Spec struct {
		// Name of the NeonBranch, in the same namespace.
		Branch string `json:"branch" crd:"minLength=1,immutable,column"`
		// Name of the role in PostgreSQL. Default: that of the object.
		Name string `json:"name,omitempty" crd:"pattern='^[a-z_][a-z0-9_-]{0,62}$',immutable"`
		// Password names a value in a Secret. Default: a random one.
		Password *SecretKey `json:"password,omitempty"`
	} `json:"spec"`
	Status struct {
		Conditions `json:",inline"`
		// Name of the Secret that holds the password.
		Secret string `json:"secret,omitempty" crd:"column"`
		// Generation of the spec that the status is about.
		ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	} `json:"status,omitzero"`
	_ struct{} `crd:"rule='!self.metadata.name.startsWith(\"neon\") && !self.metadata.name.startsWith(\"pg_\") && !(self.metadata.name in [\"cloud_admin\", \"zenith_admin\"])',message='the name is reserved'"`
}

// GVK returns the kind.
func (NeonRole) GVK() kube.GVK { return gvk("NeonRole") }

// A NeonBranchDatabase is a database in a branch. Deleting the object leaves the database:
// drop it with SQL.
type NeonBranchDatabase struct {
	kube.Object
	Spec struct {
		// Name of the NeonBranch, in the same namespace.
		Branch string `json:"branch" crd:"minLength=1,immutable,column"`
		// Name of the database in PostgreSQL. Default: that of the object.
		Name string `json:"name,omitempty" crd:"pattern='^[a-z_][a-z0-9_-]{0,62}$',immutable"`
		// Owner is the name of a NeonRole of the same branch.
		Owner string `json:"owner" crd:"minLength=1,column"`
	} `json:"spec"`
	Status struct {
		Conditions `json:",inline"`
		// Generation of the spec that the status is about.
		ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	} `json:"status,omitzero"`
}

// GVK returns the kind.
func (NeonBranchDatabase) GVK() kube.GVK { return gvk("NeonBranchDatabase") }
