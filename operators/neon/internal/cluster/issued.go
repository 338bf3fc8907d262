package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/certmanager"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// ErrNoCertManager is the error of a cluster with an issuer, if the operator does not use cert-manager.
var ErrNoCertManager = errors.New("spec.tls.issuer needs cert-manager: run the operator with -cert-manager")

// servers returns the metadata of all servers of a cluster.
func servers(c *api.NeonCluster) []metav1.ObjectMeta {
	all := []metav1.ObjectMeta{about(c, "broker"), about(c, "controller")}
	for _, id := range safekeeperIDs(c) {
		all = append(all, aboutMember(c, "safekeeper", id))
	}
	for _, id := range pageserverIDs(c) {
		all = append(all, aboutMember(c, "pageserver", id))
	}
	return all
}

// issued describes the Certificates of a cluster whose certificates cert-manager issues. They are
// ready when cert-manager says so.
func (op *Operator) issued(p *plan.Plan, c *api.NeonCluster) *plan.Nodes[certmanager.Certificate] {
	by := map[string]metav1.ObjectMeta{}
	var names []string
	for _, server := range servers(c) {
		name := server.Labels[componentLabel]
		if id := server.Labels[idLabel]; id != "" {
			name += "-" + id
		}
		by[name], names = server, append(names, name)
	}
	return plan.Each(p, "issued", names, *op.Issued, func(_ plan.Inputs, key string) (*certmanager.Certificate, error) {
		server := by[key]
		return certmanager.New(server, serverNames(server), *IssuerOf(c)), nil
	}).Do(func(_ string, n *plan.Node[certmanager.Certificate]) { n.ReadyWhen(IsIssued).Within(2 * time.Minute) })
}

// IsIssued judges a Certificate of cert-manager.
func IsIssued(c *certmanager.Certificate) ready.State {
	condition := meta.FindStatusCondition(c.Status.Conditions, "Ready")
	switch {
	case condition == nil:
		return ready.State{Phase: ready.Waiting, Message: "cert-manager has not looked at it: does it run?"}
	case condition.Status != metav1.ConditionTrue:
		return ready.State{Phase: ready.Waiting, Message: "cert-manager says: " + condition.Message}
	}
	return ready.State{Phase: ready.Ready}
}

// joined returns the authorities of a cluster, with those of the certificates that were issued.
func (op *Operator) joined(ctx context.Context, c *api.NeonCluster, is trust.Authorities, now time.Time) (trust.Authorities, error) {
	if op.Issued == nil {
		return nil, ErrNoCertManager
	}
	for _, server := range servers(c) {
		data, err := stored(ctx, op.Secrets, kube.Key{Namespace: c.Namespace, Name: certmanager.SecretName(server.Name)})
		if err != nil {
			return nil, err
		}
		is = trust.Join(is, data[trust.Bundle], now)
	}
	return is, nil
}

// issuedFor returns the cluster of the server that a Secret was issued for.
func issuedFor(s *corev1.Secret) []kube.Key {
	if s.Labels[certmanager.IssuedLabel] == "" || !slices.Contains(components, s.Labels[componentLabel]) {
		return nil
	}
	return []kube.Key{{Namespace: s.Namespace, Name: s.Labels[instanceLabel]}}
}

// components are those whose servers have certificates. An endpoint may have the name of a cluster.
var components = []string{"broker", "controller", "safekeeper", "pageserver"}

// forgetIssued deletes the Secrets that cert-manager has made. It does not delete them itself.
func (op *Operator) forgetIssued(ctx context.Context, c *api.NeonCluster) error {
	if op.Issued == nil || IssuerOf(c) == nil {
		return nil
	}
	for _, server := range servers(c) {
		if err := ForgetIssued(ctx, op.Secrets.In(c.Namespace), server.Name); err != nil {
			return err
		}
	}
	return op.forgetLeft(ctx, c)
}

// forgetLeft deletes those of members that have left. While a Certificate is there, cert-manager would make
// its Secret again; the end of the Certificate is an event.
func (op *Operator) forgetLeft(ctx context.Context, c *api.NeonCluster) error {
	if op.Issued == nil {
		return nil
	}
	for s, err := range op.issuedByCluster.Get(ctx, kube.KeyOf(c)) {
		if err != nil {
			return err
		}
		server := strings.TrimSuffix(s.Name, certmanager.SecretName(""))
		_, err := op.Issued.In(c.Namespace).Cached().Get(ctx, server)
		if err == nil {
			continue
		}
		if unlessMissing(err) != nil {
			return err
		}
		if err := ForgetIssued(ctx, op.Secrets.In(c.Namespace), server); err != nil {
			return err
		}
	}
	return nil
}

// ForgetIssued deletes the Secret that cert-manager has made for a server.
func ForgetIssued(ctx context.Context, secrets kube.Resource[corev1.Secret], server string) error {
	if err := secrets.Delete(ctx, certmanager.SecretName(server)); unlessMissing(err) != nil {
		return fmt.Errorf("delete the certificate of %s: %w", server, err)
	}
	return nil
}
