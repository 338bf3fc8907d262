package crd

import "reflect"

// The types of k8s.io/api say in comments, +optional and +required, what their
// tags say otherwise, and what no program sees. Here is where that matters; a
// test compares it with what a server says of its own types.

// markersOf are the fields of a type that are not what their tags say.
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

// fullName is a type's name with its package's whole path.
func fullName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }
