// Package e2e tests the operator on a real node, as it is shipped: its image in a pod, from the
// manifests that it prints, with the images of Neon's programs that package images names. The
// tests know nothing of stand-ins.
package e2e
