// Package pod has the operations that only pods have: [Logs], [Exec], [Attach],
// [PortForward] and [Evict]. Each takes a handle of pods, which may be a view:
//
//	pods := kube.For[corev1.Pod](client).In("default")
//	var out strings.Builder
//	err := pod.Exec(ctx, pods, "web-0", []string{"date"}, pod.Streams{Stdout: &out})
//
// It is apart from package kube because it uses client-go's transports, which make a
// program 0.8 MB larger (0.3 compressed).
//
// # Caveats
//
// Exec, Attach and PortForward use websockets, and use SPDY if a server or a proxy cannot
// do those. They are neither repeated nor resumed: a lost connection is an error.
//
// The API server's word is believed. If it loses the kubelet, it ends a log like a whole one,
// and may say of a command that it has succeeded. A program that must have the whole output
// has the command end it with a mark, as pg_dump does.
package pod

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
)

// Logs streams the log of a container until the caller closes it, ctx ends, or the log
// ends. With Follow the log ends when the container ends. The zero options ask for the
// whole log of the pod's only container. The counterparts are GetLogs of client-go and
// Api::log_stream of kube-rs.
func Logs[T any](
	ctx context.Context, pods kube.Handle[T], name string, options corev1.PodLogOptions,
) (io.ReadCloser, error) {
	query, err := queryparams.Convert(&options)
	if err != nil {
		return nil, &kube.Error{Verb: "get", Kind: "Pod/log", Name: name, Err: err}
	}
	return kube.Stream(ctx, pods, name, "log", query)
}

// ErrDisruptionBudget is wrapped if a PodDisruptionBudget forbids an eviction for now.
// The pod was not evicted; the caller may try again later. Its counterpart is the answer 429
// that apierrors.IsTooManyRequests of apimachinery finds.
var ErrDisruptionBudget = errors.New("a disruption budget does not allow it now")

// Evict deletes a pod if its disruption budget allows it (policy/v1 Eviction). The zero
// options leave the grace period to the pod. The counterparts are EvictV1 of client-go
// and Api::evict of kube-rs.
func Evict[T any](ctx context.Context, pods kube.Handle[T], name string, options metav1.DeleteOptions) error {
	e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}, DeleteOptions: &options}
	_, err := kube.Sub[policyv1.Eviction](pods, "eviction").Create(ctx, name, e)
	if apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		return fmt.Errorf("%w: %w", ErrDisruptionBudget, err)
	}
	return err
}
