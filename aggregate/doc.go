// Package aggregate serves API kinds by the program itself, behind an APIService, instead
// of by a CustomResourceDefinition. A kind needs no generated code and no scheme:
//
//	var llamas = crd.Of[Llama](crd.Options{ShortNames: []string{"ll"}})
//
//	func describe(client *kube.Client) (program.Operator, error) {
//		server := aggregate.Server{
//			Client:       client,
//			Kinds:        []aggregate.Any{aggregate.Stored[Llama]{Definition: llamas}},
//			Registration: aggregate.Registration{Local: true},
//		}
//		var options controller.Options
//		server.AddTo(&options)
//		return program.Operator{Name: "farm", Options: options}, nil
//	}
//
// Take a CustomResourceDefinition if it can do the work: kube-apiserver then serves the
// kind, and nothing here must run. Serve a kind yourself if each of its objects is a view of
// an object of one other kind in the cluster ([Projection]), if its objects must not be
// stored in the cluster's etcd, or if a request acts at once ([Stored] with subresources).
//
// # Guarantees
//
// A [Stored] kind behaves as if a CustomResourceDefinition defined it: the same code of
// k8s.io/apiextensions-apiserver handles its requests. Verbs, validation, defaults, CEL
// rules, status and scale subresources, server-side apply, tables, selectors, watches and
// the text of errors are the same. Beyond that a Go function can validate and default.
//
// A [Projection] has no state. Its objects have the resource versions of their sources, so
// any number of replicas serve the same view, and a client can continue a watch at another
// replica.
//
// Requests come through kube-apiserver, which proves itself with a client certificate.
// The server trusts the names of users only from that certificate, whose authority it reads
// from the ConfigMap kube-system/extension-apiserver-authentication and reads again when it
// changes. It asks kube-apiserver for the rights of each user. Admission webhooks,
// policies and quotas of the cluster apply to the kinds.
//
// [Server.Run] returns after the last request was answered. At the end it ends watches, and
// clients continue them elsewhere.
//
// # Caveats
//
// While no server answers for a registered group, kube-apiserver answers 503 for its kinds,
// and no namespace of the cluster can be deleted, whichever kinds it contains.
//
// k8s.io/apiserver has global state of its own: feature gates, a registry of metrics, klog
// and the schemes of its packages. Run one server per process. Its metrics are those of
// kube-apiserver, at /metrics of the server's address. Its log lines are klog's: give
// klog.SetSlogLogger the program's logger to have them with the other lines.
//
// Kinds speak JSON and YAML. A client that asks for protobuf gets JSON.
//
// If a function of the program panics, the server logs that and ends the request: kube-apiserver
// answers 503, and for a View 500. Other requests go on.
//
// Validate does not see changes through the scale subresource.
//
// Read the source in this order: server.go, access.go, admission.go, discovery.go,
// openapi.go, bodies.go, resource.go, stored.go, defaults.go, storage.go, etcd.go, projection.go,
// source.go, certificate.go, registration.go, manifest.go.
package aggregate
