// Package manifest renders the objects that a cluster needs to run an operator, from the
// operator's own program: its kinds, the rights that it uses and no more, and the
// Deployment that runs it. The package renders YAML for kubectl apply --server-side, and a
// Helm chart.
//
//	op := manifest.Operator{
//		Name:        "echo-operator",
//		Image:       "ghcr.io/example/echo-operator:v1.0.0",
//		Controllers: []controller.Any{echoController},
//		Definitions: []*crd.Definition{definition},
//		Options:     controller.Options{Address: ":8080", Lease: lease.Lease{Name: "echo-operator"}},
//		Needs:       []manifest.Rules{manifest.Applies(deployments, services)},
//	}
//	yaml, err := op.YAML()
//
// Package program has a main function that prints these manifests if the command line
// asks for them, and runs the operator otherwise.
//
// Rights follow from handles. [Applies] of a handle that is narrowed to a namespace gives
// the right in that namespace only, in a Role. [Applies] of any other handle gives the
// right in all namespaces, in a ClusterRole. The rights that a controller needs by itself,
// and those to apply the status of the operator's own kinds, follow from the Controllers.
// Declare the rights for everything else that a reconcile does. [Audit] checks the
// declaration in a test: it compares the requests of the operator with its rights. In
// controller-tools the +kubebuilder:rbac markers declare rights.
//
// Handles need no server that can be reached: a client with any configuration is enough.
//
// The file operator.go derives rights from controllers and options, and rule.go derives
// verbs from handles. merge.go makes roles of them, objects.go makes the other objects, and
// chart.go makes a chart of all objects.
package manifest
