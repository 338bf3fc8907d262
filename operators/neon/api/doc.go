// Package api has the kinds of the Neon operator. A NeonDatabase is the one-resource way to
// a database. It is made of the others:
//
//	NeonCluster         the storage: safekeepers, pageservers and their controller
//	NeonProject         a tenant of the storage: the data of one application
//	NeonBranch          a timeline of a project: a history of the data
//	NeonEndpoint        a PostgreSQL that serves a branch
//	NeonRole            a user of a branch
//	NeonBranchDatabase  a database in a branch
//
// The status of each is that of a plan: its conditions and nodes say what is waited for.
package api

import (
	"embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

//go:embed *.go
var source embed.FS

// DeletionPolicy says whether data outlives its object.
type DeletionPolicy string

const (
	// Retain keeps the data when the object is deleted.
	Retain DeletionPolicy = "Retain"
	// Delete deletes the data with the object.
	Delete DeletionPolicy = "Delete"
)

// Switch is On or Off.
type Switch string

const (
	// On is the default.
	On Switch = "On"
	// Off is the other one.
	Off Switch = "Off"
)

// SecretKey names a value in a Secret of the object's namespace.
type SecretKey struct {
	// Name of the Secret.
	Name string `json:"name" crd:"minLength=1"`
	// Key of the value.
	Key string `json:"key" crd:"minLength=1"`
}

// LSN is a position in the history of a branch, as in 0/16B3748.
type LSN string

// Definitions are the definitions of all kinds.
var Definitions = []*crd.Definition{
	crd.Of[NeonDatabase](crd.Options{Source: source, ShortNames: []string{"nd"}}),
	crd.Of[NeonCluster](crd.Options{Source: source}),
	crd.Of[NeonProject](crd.Options{Source: source}),
	crd.Of[NeonBranch](crd.Options{Source: source}),
	crd.Of[NeonEndpoint](crd.Options{Source: source}),
	crd.Of[NeonRole](crd.Options{Source: source}),
	crd.Of[NeonBranchDatabase](crd.Options{Source: source}),
}

func gvk(kind string) kube.GVK {
	return kube.GVK{Group: "neon.pintle.dev", Version: "v1alpha1", Kind: kind}
}

// Conditions is the part of a status that kinds without a plan have.
type Conditions struct {
	// Conditions has Ready.
	Conditions []metav1.Condition `json:"conditions,omitempty" crd:"column=Ready,columnPath='[?(@.type==\"Ready\")].status',columnType=string"`
}
