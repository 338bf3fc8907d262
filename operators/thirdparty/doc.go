// Package thirdparty has no code: its test uses the types of other people's API
// modules, cert-manager's and Gateway API's, as an operator would.
//
// It is a module of its own, outside the workspace, because those modules
// require other versions of what Kubernetes is built from, and in a workspace
// there is one version of each.
package thirdparty
