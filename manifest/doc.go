// Package manifest renders what a cluster needs to run an operator, from the
// operator's own program: its kinds, the rights that it uses and no more, and the
// Deployment that runs it. It renders YAML for kubectl apply, and a Helm chart.
//
//	op := manifest.Operator{
//		Name:        "echo-operator",
//		Image:       "ghcr.io/example/echo-operator:v1.0.0",
//		Options:     controller.Options{Address: ":8080", Lease: lease.Lease{Name: "echo-operator"}},
//		Definitions: []*crd.Definition{definition},
//		Needs: []manifest.Rules{
//			manifest.Controls(echoController),
//			manifest.Applies(deployments, services),
//			manifest.AppliesStatus(echoes),
//			manifest.Events(),
//		},
//	}
//	yaml, err := op.YAML()
//
// Package program has the main function of a program that does so when it is asked
// to, and runs the operator otherwise.
//
// Rights follow from handles: [Applies] of a handle that is narrowed to a
// namespace is the right to do so there and nowhere else, in a Role; of one that
// is not, everywhere, in a ClusterRole. [Controls] knows what a controller does by
// itself. What a reconcile does besides is declared, and held to be right by
// [Audit] in a test: it compares the requests that were made with the rights.
//
// Handles need no server that can be reached: a client with any configuration
// will do.
//
// rule.go says which verbs follow from what, merge.go makes roles of them,
// objects.go the rest, and chart.go turns all into a chart.
package manifest
