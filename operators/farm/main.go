// Command farm serves a group of kinds by itself, behind an APIService. It needs no
// CustomResourceDefinition.
//
//	go run ./operators/farm                                                    # against the kubeconfig's cluster
//	go run ./operators/farm manifests | kubectl apply --server-side -f -       # in it
//
// A Llama is stored: in an etcd inside the program, not in the cluster's. A FarmPod is a
// view of a Pod and is stored nowhere. A controller in the same program writes the mood of
// each Llama, as a controller does for any kind.
//
// Outside a cluster the program registers itself while it runs: kube-apiserver then sends
// it all requests for the group. kube-apiserver must be able to connect to the address of
// the flag -api, as that of a local cluster can. In a cluster the program keeps its
// certificate in a Secret.
package main

import (
	"context"
	"embed"
	"flag"
	"log/slog"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/program"
)

const (
	group   = "farm.example.com"
	version = "v1alpha1"
	// older is the version of the first farms. Objects look the same in both.
	older = "v1alpha"

	service = "farm-api" // in front of the program in a cluster

	// quota bounds the database of the llamas, in bytes: some 100,000 llamas. The whole database is
	// mapped into memory, and a copy of it fits the volume beside the log of etcd.
	quota = 128 << 20
)

// A Llama lives on the farm.
type Llama struct {
	kube.Object
	Spec struct {
		// The weight in kilograms.
		Weight int32 `json:"weight" crd:"min=1,column"`
		// The height in centimetres.
		Height int32 `json:"height" crd:"min=1,column"`
	} `json:"spec"`
	Status struct {
		Mood string `json:"mood,omitempty" crd:"column"`
	} `json:"status,omitzero"`
}

// GVK returns the kind.
func (Llama) GVK() kube.GVK { return kube.GVK{Group: group, Version: version, Kind: "Llama"} }

// A FarmPod is a Pod of the cluster as the farm sees it.
type FarmPod struct {
	kube.Object
	Spec struct {
		Containers int32  `json:"containers" crd:"column"`
		Node       string `json:"node,omitempty" crd:"column,selectable"`
	} `json:"spec"`
	Status struct {
		Ready int32  `json:"ready" crd:"column"`
		Phase string `json:"phase,omitempty" crd:"column"`
	} `json:"status,omitzero"`
}

// GVK returns the kind.
func (FarmPod) GVK() kube.GVK { return kube.GVK{Group: group, Version: version, Kind: "FarmPod"} }

// farmPod returns the view of a Pod.
func farmPod(p *corev1.Pod) *FarmPod {
	f := new(FarmPod)
	f.Spec.Containers, f.Spec.Node, f.Status.Phase = int32(len(p.Spec.Containers)), p.Spec.NodeName, string(p.Status.Phase)
	for _, c := range p.Status.ContainerStatuses {
		if c.Ready {
			f.Status.Ready++
		}
	}
	return f
}

type operator struct{ llamas kube.Resource[Llama] }

func (op operator) reconcile(ctx context.Context, l *Llama) (controller.Action, error) {
	l.Status.Mood = "content"
	if l.Spec.Weight*3 < l.Spec.Height {
		l.Status.Mood = "hungry"
	}
	return controller.Done, op.llamas.EnsureStatus(ctx, l)
}

//go:embed main.go
var source embed.FS

func main() {
	inPod := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	address := "127.0.0.1:8443"
	if inPod {
		address = ":8443"
	}
	api := flag.String("api", address, "`address` at which the API is served")
	data := flag.String("data", "data", "`directory` of the llamas")
	local := flag.Bool("local", !inPod, "register this process in place of the one in the cluster, while it runs")
	klog.SetSlogLogger(slog.Default()) // the API server's library logs with it
	program.Main(func(client *kube.Client) (program.Operator, error) {
		return describe(client, aggregate.Server{
			Address: *api, Storage: aggregate.Storage{Dir: *data, QuotaBytes: quota},
			Registration: aggregate.Registration{Local: *local, Service: kube.Key{Name: service}},
		})
	})
}

// describe returns the operator with its controller, its API server, and their rights.
func describe(client *kube.Client, server aggregate.Server) (program.Operator, error) {
	llamas := crd.Of[Llama](crd.Options{Source: source, ShortNames: []string{"ll"}, Categories: []string{"farm"}})
	farmPods := crd.Of[FarmPod](crd.Options{Source: source, Categories: []string{"farm"}})
	server.Client = client
	server.Kinds = []aggregate.Any{
		aggregate.Stored[Llama]{Definition: inBothVersions(llamas)},
		aggregate.Projection[corev1.Pod, FarmPod]{
			Definition: inBothVersions(farmPods), Source: kube.KindOf[corev1.Pod](), Prefix: "farm-", View: farmPod,
		},
	}
	issuer := &certificate.Issuer{Client: client, Service: service, Targets: []certificate.Target{
		certificate.APIService(version + "." + group), certificate.APIService(older + "." + group),
	}}
	runnables := []controller.Runnable{thrifty}
	if !server.Registration.Local { // which has a certificate for the process alone
		server.GetCertificate = issuer.GetCertificate
		runnables = append(runnables, controller.Runnable{Name: "certificate", Run: issuer.Run, EveryReplica: true})
	}
	kind := kube.Kind{GVK: Llama{}.GVK(), Plural: "llamas", Scope: kube.Namespaced}
	op := operator{llamas: kube.ForKind[Llama](client, kind)}
	moods := controller.Controller[Llama]{For: op.llamas, Reconcile: op.reconcile}
	claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "farm-data"}
	options := controller.Options{Runnables: runnables, Lease: lease.Lease{Name: "farm"}}
	server.AddTo(&options)
	return program.Operator{Controllers: []controller.Any{moods}, Manifest: manifest.Bundle{
		Name:  "farm",
		Image: "ghcr.io/pintle-go/farm:v0.1.0",
		Args:  []string{"-data=/data/etcd"},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse("512Mi"),
		}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}}},
		Mounts:  []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		Needs:   []manifest.Rules{manifest.Controls(moods), manifest.AppliesStatus(op.llamas), server.Rights(), manifest.Issues(issuer)},
		Objects: func(b manifest.Bundle) ([]any, error) {
			objects, err := server.Objects(b)
			return append(objects, dataClaim(b.Namespace)), err
		},
		Options: options,
	}}, nil
}

// inBothVersions adds the older version to a definition. Objects are stored in the other.
func inBothVersions(d *crd.Definition) *crd.Definition {
	for _, same := range d.Spec.Versions { // none, if the definition has an error
		same.Name, same.Storage = older, false
		d.Spec.Versions = append(d.Spec.Versions, same)
	}
	return d
}

// dataClaim returns the claim for the volume that keeps the llamas.
func dataClaim(namespace string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}}
	c.Name, c.Namespace = "farm-data", namespace
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return c
}
