// Package pod tells whether the process runs in a pod.
package pod

import "os"

// Inside reports whether the process runs in a pod with a service account. It looks for
// the same signs as client-go's rest.InClusterConfig.
func Inside() bool {
	_, err := os.Stat("/var/run/secrets/kubernetes.io/serviceaccount/token")
	return err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}
