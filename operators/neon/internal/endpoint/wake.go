package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/proxy"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// Waker resumes endpoints for clients of the proxy. An endpoint's name there is
// NAME.NAMESPACE.
type Waker struct{ Operator *Operator }

// ProxyName returns the name by which clients of the proxy name an endpoint.
func ProxyName(e *api.NeonEndpoint) string { return e.Name + "." + e.Namespace }

// HostName returns the endpoint that a host name means, as in NAME.NAMESPACE.db.example.com.
func HostName(host string) string {
	labels := strings.SplitN(host, ".", 3)
	return strings.Join(labels[:min(2, len(labels))], ".")
}

// SplitUser splits the name of a user as the Secrets have it: USER.NAME.NAMESPACE.
func SplitUser(user string) (role, endpoint string) {
	namespace := strings.LastIndexByte(user, '.')
	if namespace < 0 {
		return user, ""
	}
	name := strings.LastIndexByte(user[:namespace], '.')
	if name <= 0 {
		return user, ""
	}
	return user[:name], user[name+1:]
}

// Wake returns the address of an endpoint's PostgreSQL once it runs. It resumes an endpoint
// that is suspended because it was idle. An endpoint that is suspended by its spec stays so.
func (w Waker) Wake(ctx context.Context, endpoint string) (string, error) {
	name, namespace, ok := strings.Cut(endpoint, ".")
	if !ok {
		return "", fmt.Errorf("%w: %q is not NAME.NAMESPACE", proxy.ErrUnknown, endpoint)
	}
	key, asked, looked := kube.Key{Namespace: namespace, Name: name}, time.Time{}, time.Time{}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		e, err := w.Operator.Endpoints.In(key.Namespace).Cached().Get(ctx, key.Name)
		switch {
		case apierrors.IsNotFound(err) || err == nil && e.DeletionTimestamp != nil:
			return "", proxy.ErrUnknown
		case err != nil:
			return "", fmt.Errorf("look for the endpoint: %w", err)
		case e.Spec.Suspended:
			return "", fmt.Errorf("the endpoint is suspended: set spec.suspended of NeonEndpoint %s to false", key)
		case e.Status.IdleSince.IsZero() && e.Status.Phase == active:
			w.Operator.moments.wake(key, time.Now())
			return fmt.Sprintf("%s:%d", hostName(e), postgresPort), nil
		case e.Status.IdleSince.After(asked):
			asked = resumeAt(time.Now(), e.Status.IdleSince.Time)
			if err := w.resume(ctx, key, asked); err != nil {
				return "", err
			}
		}
		if e.Status.IdleSince.IsZero() && e.Status.Phase == starting && time.Since(looked) > lookEvery {
			looked = time.Now()
			if address := w.early(ctx, e); address != "" {
				w.Operator.moments.wake(key, time.Now())
				return address, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for the endpoint, which is %s: %w", e.Status.Phase, ctx.Err())
		case <-ticker.C:
		}
	}
}

// resumeAt returns the time for the annotation that resumes an endpoint. The clock of the
// process that suspended it can be ahead of this one's: then a time of this clock resumes nothing.
func resumeAt(now, idleSince time.Time) time.Time {
	if now.Before(idleSince) {
		return idleSince
	}
	return now
}

// lookEvery is the time between two looks at a compute that is starting.
const lookEvery = 200 * time.Millisecond

// early returns the address of a compute that is starting, once it runs. That is up to some
// seconds before the reconcile sees it and the pod counts as ready. The pod is asked at its own
// address, because resolvers remember for seconds that a name had none.
func (w Waker) early(ctx context.Context, e *api.NeonEndpoint) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	pod, err := w.Operator.Pods.In(e.Namespace).Get(ctx, podName(e))
	if err != nil || pod.DeletionTimestamp != nil || pod.Status.PodIP == "" {
		return ""
	}
	_, p, err := w.Operator.placeOf(ctx, e)
	if err != nil {
		return ""
	}
	client, err := w.Operator.clientAt(ctx, e, p, pod.Status.PodIP)
	if err != nil {
		return ""
	}
	is, err := client.Status(ctx)
	if err != nil || is.Status != upstream.ComputeRunning {
		return ""
	}
	return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(postgresPort))
}

// resume asks for the end of an endpoint's suspension.
func (w Waker) resume(ctx context.Context, key kube.Key, at time.Time) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{api.Resume: at.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	if _, err := w.Operator.Endpoints.In(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("resume the endpoint: %w", err)
	}
	return nil
}
