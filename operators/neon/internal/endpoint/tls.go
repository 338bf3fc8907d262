package endpoint

import (
	"context"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/certmanager"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/plan"
)

// security is the TLS of an endpoint's compute. Its nil value is that of a cluster without it.
//
// PostgreSQL serves TLS to those clients that ask for it. It calls safekeepers and pageservers without: upstream's
// WAL and page services are plain. So is the port of compute_ctl.
type security struct {
	*cluster.Certifier
	kept map[string][]byte // the content of its Secret, for a compute whose cluster is gone
}

// security returns the TLS of an endpoint's cluster. It is nil for an endpoint whose branch or
// project is waited for, too.
func (op *Operator) security(ctx context.Context, e *api.NeonEndpoint, now time.Time) (*security, error) {
	s, err := op.ofCluster(ctx, e, now)
	if !apierrors.IsNotFound(err) {
		return s, err
	}
	// A compute that runs keeps its certificate while its cluster is being deleted.
	was, err := op.Secrets.In(e.Namespace).Cached().Get(ctx, cluster.CertificateName(computeName(e)))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &security{kept: was.Data}, nil
}

// ofCluster returns the TLS of an endpoint whose cluster is there. The error is NotFound otherwise.
func (op *Operator) ofCluster(ctx context.Context, e *api.NeonEndpoint, now time.Time) (*security, error) {
	_, p, err := op.placeOf(ctx, e)
	if err != nil {
		return nil, err
	}
	key := kube.Key{Namespace: e.Namespace, Name: p.Spec.Cluster}
	data, err := op.Clients.Authorities(ctx, key)
	if err != nil || data == nil {
		return nil, err
	}
	c, err := op.Clusters.In(key.Namespace).Cached().Get(ctx, key.Name)
	if err != nil {
		return nil, err
	}
	s := &cluster.Certifier{Secrets: op.Secrets, Terms: op.Certificates, Now: now, Authorities: trust.Read(data)}
	s.Issuer = cluster.IssuerOf(c)
	if s.Issuer != nil && op.Issued == nil {
		s.Failed = cluster.ErrNoCertManager
	}
	// Nobody knows which authorities the clients trust. Certificates that others issue are as they are.
	s.Known = s.Issuer != nil
	return &security{Certifier: s}, nil
}

// certificate describes the Secret with the certificate of a compute. It is nil for one without TLS.
func (op *Operator) certificate(ctx context.Context, all *plan.Plan, e *api.NeonEndpoint, s *security) plan.Need {
	if s == nil {
		return nil
	}
	meta := metav1.ObjectMeta{Namespace: e.Namespace, Name: computeName(e), Labels: labels(e)}
	// Clients use the first Service, and the operator the second one.
	names := append(cluster.ServiceNames(e.Name, e.Namespace), cluster.ServiceNames(computeName(e), e.Namespace)...)
	node := plan.Object(all, "certificate", op.Secrets, func(plan.Inputs) (*corev1.Secret, error) {
		if s.Certifier == nil {
			secret := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeTLS, Data: s.kept}
			secret.Name = cluster.CertificateName(meta.Name)
			return secret, nil
		}
		return s.Secret(ctx, meta, names)
	})
	if s.Certifier != nil && s.Issuer != nil && op.Issued != nil {
		node.Needs(plan.Object(all, "issued", *op.Issued, func(plan.Inputs) (*certmanager.Certificate, error) {
			return certmanager.New(meta, names, *s.Issuer), nil
		}).ReadyWhen(cluster.IsIssued).Within(2 * time.Minute))
	}
	return node
}

// due returns when a certificate has to be made next.
func (s *security) due() controller.Action {
	if s == nil {
		return controller.Done
	}
	return s.Due()
}

// certify adds the files of the certificate to an input.
func (s *security) certify(in *spec.Input) {
	if s == nil {
		return
	}
	in.TLS = &spec.TLS{KeyPath: path.Join(trust.Dir, trust.Key), CertPath: path.Join(trust.Dir, trust.Cert)}
}

// mount adds the files to a pod.
func (s *security) mount(e *api.NeonEndpoint, pod *corev1.PodSpec) {
	if s == nil {
		return
	}
	from := &corev1.SecretVolumeSource{SecretName: cluster.CertificateName(computeName(e))}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: from}})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "tls", MountPath: trust.Dir, ReadOnly: true})
}
