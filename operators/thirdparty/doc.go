// Package thirdparty has no code: its tests use other people's modules as an
// operator would, with the types of cert-manager and Gateway API, client-go's
// leader election beside package lease, OpenTelemetry, Helm, and Starlark, in which
// the Tiltfile is written.
//
// It is a module of its own, outside the workspace, because those modules
// require other versions of what Kubernetes is built from, and in a workspace
// there is one version of each.
package thirdparty
