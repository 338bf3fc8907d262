package crd

import "reflect"

// In k8s.io/api the comments +optional and +required can contradict the tags, and a
// program cannot see them. This file lists the fields where that matters. A test compares
// the list with the schemas of an API server.

// markersOf lists the fields of a type whose comments contradict their tags.
type markersOf struct {
	optional, required []string
}

var markers = map[string]markersOf{
	"k8s.io/api/apps/v1.StatefulSetOrdinals":                     {optional: []string{"start"}},
	"k8s.io/api/apps/v1.StatefulSetSpec":                         {optional: []string{"serviceName"}},
	"k8s.io/api/batch/v1.PodFailurePolicyOnPodConditionsPattern": {optional: []string{"status"}},
	"k8s.io/api/core/v1.AzureFilePersistentVolumeSource":         {optional: []string{"secretNamespace"}},
	"k8s.io/api/core/v1.ContainerImage":                          {optional: []string{"names"}},
	"k8s.io/api/core/v1.ContainerRestartRule":                    {required: []string{"action"}},
	"k8s.io/api/core/v1.ContainerRestartRuleOnExitCodes":         {required: []string{"operator"}},
	"k8s.io/api/core/v1.GRPCAction":                              {optional: []string{"service"}},
	"k8s.io/api/core/v1.ImageVolumeStatus":                       {required: []string{"imageRef"}},
	"k8s.io/api/core/v1.NodeRuntimeHandler":                      {optional: []string{"name"}},
	"k8s.io/api/core/v1.PodCertificateProjection":                {required: []string{"signerName", "keyType"}},
	"k8s.io/api/core/v1.ProjectedVolumeSource":                   {optional: []string{"sources"}},
	"k8s.io/api/core/v1.TypedLocalObjectReference":               {optional: []string{"apiGroup"}},
	"k8s.io/api/core/v1.TypedObjectReference":                    {optional: []string{"apiGroup"}},
	"k8s.io/api/networking/v1.NetworkPolicySpec":                 {optional: []string{"podSelector"}},
	"k8s.io/api/rbac/v1.ClusterRole":                             {optional: []string{"rules"}},
	"k8s.io/api/rbac/v1.Role":                                    {optional: []string{"rules"}},
}

// fullName returns a type's name with the full path of its package.
func fullName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }
