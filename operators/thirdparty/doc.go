// Package thirdparty has no code. Its tests use other people's modules as an operator
// would: the types of cert-manager and Gateway API, client-go's leader election beside
// package lease, OpenTelemetry, Helm, and Starlark, the language of the Tiltfile. Package
// browser looks at the page of plan/page with Chromium, and package certmanager runs
// cert-manager's controllers.
//
// It is a module of its own, outside the workspace, because those modules require other
// versions of the Kubernetes modules, and a workspace has one version of each.
package thirdparty
