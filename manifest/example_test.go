package manifest_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
)

// Rights follow from handles: in one namespace for the Secrets, in all for the
// Deployments. No server is needed.
func ExampleOperator_YAML() {
	client, err := kube.Config{Rest: &rest.Config{Host: "https://kubernetes"}}.Connect()
	if err != nil {
		log.Fatal(err)
	}
	deployments := kube.For[appsv1.Deployment](client)
	secrets := kube.For[corev1.Secret](client).In("vault")
	op := manifest.Operator{
		Name:  "scaler",
		Image: "ghcr.io/example/scaler:v1",
		Needs: []manifest.Rules{
			manifest.Watches(deployments), manifest.Uses(deployments, "scale", "get", "update"), manifest.Gets(secrets),
		},
		Options: controller.Options{Address: ":8080"},
	}
	yaml, err := op.YAML()
	if err != nil {
		log.Fatal(err)
	}
	for object := range strings.SplitSeq(string(yaml), "---\n") {
		if strings.Contains(object, "\nrules:") {
			fmt.Print(object)
		}
	}
	// Output:
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: ClusterRole
	// metadata:
	//   labels:
	//     app.kubernetes.io/name: scaler
	//   name: scaler
	// rules:
	// - apiGroups:
	//   - apps
	//   resources:
	//   - deployments
	//   verbs:
	//   - list
	//   - watch
	// - apiGroups:
	//   - apps
	//   resources:
	//   - deployments/scale
	//   verbs:
	//   - get
	//   - update
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: Role
	// metadata:
	//   labels:
	//     app.kubernetes.io/name: scaler
	//   name: scaler
	//   namespace: vault
	// rules:
	// - apiGroups:
	//   - ""
	//   resources:
	//   - secrets
	//   verbs:
	//   - get
}

// A Helm chart of an operator whose replicas wait for one another.
func ExampleOperator_WriteChart() {
	dir, err := os.MkdirTemp("", "chart-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	op := manifest.Operator{
		Name:    "scaler",
		Image:   "ghcr.io/example/scaler:v1.2.0",
		Options: controller.Options{Lease: lease.Lease{Name: "scaler"}},
		Install: manifest.Install{Version: "1.2.0", Description: "Scales Deployments by the clock", Replicas: 2},
	}
	if err := op.WriteChart(dir); err != nil {
		log.Print(err)
		return
	}
	chart, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Print(string(chart))
	// Output:
	// apiVersion: v2
	// appVersion: 1.2.0
	// description: Scales Deployments by the clock
	// name: scaler
	// type: application
	// version: 1.2.0
}

// An audit finds the rights that an operator has used.
func ExampleAudit() {
	var used manifest.Audit
	config := &rest.Config{Host: "https://kubernetes"}
	config.Wrap(used.Wrap)
	client, err := kube.Config{Rest: config}.Connect()
	if err != nil {
		log.Fatal(err)
	}
	secrets := kube.For[corev1.Secret](client)
	op := manifest.Operator{
		Name: "scaler", Image: "ghcr.io/example/scaler:v1",
		Needs: []manifest.Rules{manifest.Gets(secrets)},
	}
	// A test runs the operator with the client here. This one made no request.
	fmt.Println(used.Compare(op))
	// Output:
	// superfluous: the right to get secrets
}
