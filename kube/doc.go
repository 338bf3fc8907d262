// Package kube is a typed client for Kubernetes.
package kube
