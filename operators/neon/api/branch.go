package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// A NeonBranch is a timeline of a project: empty at first, or a copy of another branch as it
// was at some moment. Making a copy takes no time and no space.
type NeonBranch struct {
	kube.Object
	Spec   BranchSpec   `json:"spec"`
	Status BranchStatus `json:"status,omitzero"`
}

// GVK returns the kind.
func (NeonBranch) GVK() kube.GVK { return gvk("NeonBranch") }

// BranchSpec is the wanted state of a NeonBranch.
type BranchSpec struct {
	// Name of the NeonProject, in the same namespace.
	Project string `json:"project" crd:"minLength=1,immutable,column"`
	// From is the branch that this one is a copy of. Without it, the branch begins empty.
	// Its moment can be changed together with Reset.
	From *BranchPoint `json:"from,omitempty"`
	// Reset is any text. Each change makes the branch a copy of its parent again, as From says.
	// Its own changes are lost when the computes have moved to the copy.
	Reset string `json:"reset,omitempty" crd:"maxLength=253"`
	// Detached makes the branch independent of its parent, for ever. Branches of the parent that
	// begin no later than this one become its own, and must not be archived. The parent must be
	// independent itself: a branch of a branch waits until that one is detached.
	Detached bool `json:"detached,omitempty"`
	// ID of a timeline that exists, to take it over. Default: that of a branch of the same name whose data
	// was retained or restored, or one of its own.
	TimelineID string `json:"timelineID,omitempty" crd:"pattern='^[0-9a-f]{32}$',immutable"`
	// Protected refuses the deletion of the branch.
	Protected bool `json:"protected,omitempty"`
	// Archived moves the branch's data out of the pageservers. It can have no endpoint then.
	Archived bool `json:"archived,omitempty"`
	// Time after which the branch is deleted, counted from its creation.
	TTLSeconds int64 `json:"ttlSeconds,omitempty" crd:"min=1"`
	// Whether the data outlives the branch.
	DeletionPolicy DeletionPolicy `json:"deletionPolicy" crd:"enum=Retain|Delete,default=Delete"`
	_              struct{}       `crd:"rule='has(self.from) == has(oldSelf.from) && (!has(self.from) || self.from.branch == oldSelf.from.branch && (self.from == oldSelf.from || (has(self.reset) ? self.reset : \"\") != (has(oldSelf.reset) ? oldSelf.reset : \"\")))',message='from is immutable, except for its moment together with reset'"`
	_              struct{}       `crd:"rule='has(self.from) || !has(self.reset)',message='a branch without from cannot be reset'"`
	_              struct{}       `crd:"rule='has(self.from) || !has(self.detached) || !self.detached',message='a branch without from is independent'"`
}

// BranchPoint is a moment in the history of a branch. Without LSN and Time, it is the moment
// at which the copy is made: the copy has all that was committed before.
type BranchPoint struct {
	// Name of the NeonBranch.
	Branch string `json:"branch" crd:"minLength=1,column=From"`
	// LSN is a position in the branch's history.
	LSN LSN `json:"lsn,omitempty" crd:"pattern='^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$'"`
	// Time is a moment within the project's historyRetention.
	Time *metav1.Time `json:"time,omitempty"`
	_    struct{}     `crd:"rule='!(has(self.lsn) && has(self.time))',message='lsn and time exclude each other'"`
}

// BranchStatus is the observed state of a NeonBranch.
type BranchStatus struct {
	plan.Status `json:",inline"`
	// TenantID is that of the project.
	TenantID string `json:"tenantID,omitempty"`
	// TimelineID is the id of the timeline in the storage.
	TimelineID string `json:"timelineID,omitempty" crd:"column=Timeline,priority=1"`
	// Reset is the text of spec.reset that the timeline was made for.
	Reset string `json:"reset,omitempty"`
	// Parent is the timeline that this one is a copy of, as the storage has it: promotions
	// of other branches can change it.
	Parent string `json:"parent,omitempty"`
	// StartLSN is the position of the parent at which the branch begins.
	StartLSN LSN `json:"startLSN,omitempty" crd:"column=At,priority=1"`
	// Safekeepers are the ids of those that keep the branch's newest history.
	Safekeepers []int64 `json:"safekeepers,omitempty" crd:"listType=atomic"`
	// SafekeepersGeneration counts the changes of the safekeepers.
	SafekeepersGeneration int64 `json:"safekeepersGeneration,omitempty"`
	// LogicalSize is the size of the data in bytes.
	LogicalSize int64 `json:"logicalSize,omitempty" crd:"column=Size,priority=1"`
	// Generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
