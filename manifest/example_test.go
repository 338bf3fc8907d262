package manifest_test

import (
	"fmt"
	"log"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
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
		Name:    "scaler",
		Image:   "ghcr.io/example/scaler:v1",
		Needs:   []manifest.Rules{manifest.Watches(deployments), manifest.Patches(deployments), manifest.Gets(secrets)},
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
	//   - patch
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
