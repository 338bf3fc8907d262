package api

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// A NeonProject is a tenant of a cluster: the branches of one application's data.
type NeonProject struct {
	kube.Object
	Spec   ProjectSpec   `json:"spec"`
	Status ProjectStatus `json:"status,omitzero"`
}

// GVK returns the kind.
func (NeonProject) GVK() kube.GVK { return gvk("NeonProject") }

// ProjectSpec is the wanted state of a NeonProject.
type ProjectSpec struct {
	// Name of the NeonCluster, in the same namespace.
	Cluster string `json:"cluster" crd:"minLength=1,immutable,column"`
	// Major version of PostgreSQL. Branches inherit it.
	PostgresVersion int32 `json:"postgresVersion" crd:"min=14,max=17,default=17,immutable,column=Postgres"`
	// ID of a tenant that exists, to take it over. Default: that of a project of the same name whose data
	// was retained or restored, or one of its own.
	TenantID string `json:"tenantID,omitempty" crd:"pattern='^[0-9a-f]{32}$',immutable"`
	// Number of shards. It can grow, to a power of two.
	Shards int32 `json:"shards" crd:"enum=1|2|4|8|16|32,default=1"`
	// Time for which the history is kept, as PostgreSQL writes intervals. Branches in the
	// past can be made within it.
	HistoryRetention string `json:"historyRetention" crd:"default='7 days'"`
	// Further settings of the tenant, by the names of Neon's TenantConfig.
	TenantConfig map[string]intstr.IntOrString `json:"tenantConfig,omitempty"`
	// Whether the data outlives the project.
	DeletionPolicy DeletionPolicy `json:"deletionPolicy" crd:"enum=Retain|Delete,default=Delete"`
	_              struct{}       `crd:"rule='self.shards >= oldSelf.shards',message='the number of shards can only grow'"`
}

// ProjectStatus is the observed state of a NeonProject.
type ProjectStatus struct {
	plan.Status `json:",inline"`
	// TenantID is the id of the tenant in the storage.
	TenantID string `json:"tenantID,omitempty" crd:"column=Tenant,priority=1"`
	// Shards are the places of the data, in the order of their numbers.
	Shards []Shard `json:"shards,omitempty" crd:"listType=atomic"`
	// StripeSize of a tenant with more than one shard.
	StripeSize int32 `json:"stripeSize,omitempty"`
	// Settings are the names of the tenant's settings that this object has made. It unsets
	// those that leave the spec, and no others.
	Settings []string `json:"settings,omitempty" crd:"listType=set"`
	// Generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Shard is a part of a tenant's data.
type Shard struct {
	// Pageserver is the id of the pageserver that serves the shard.
	Pageserver int64 `json:"pageserver"`
}
