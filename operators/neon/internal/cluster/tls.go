package cluster

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// authorityAnnotation of a pod template names the newest authority that its program trusts.
const authorityAnnotation = "neon.pintle.dev/authority"

// tlsAnnotation of the keys of a cluster says how its programs are called. Without it they are called
// without TLS.
const tlsAnnotation = "neon.pintle.dev/tls"

// The values of tlsAnnotation.
const (
	byTLS = "on"
	// byEither is for programs that serve TLS at their own ports or at the ones beside them.
	byEither = "changing"
)

var (
	certPath   = path.Join(trust.Dir, trust.Cert)
	keyPath    = path.Join(trust.Dir, trust.Key)
	bundlePath = path.Join(trust.Dir, trust.Bundle)
	// servingFlags name the certificate to the broker, the storage controller and safekeepers. They
	// read it again each minute.
	servingFlags = []string{"--ssl-key-file=" + keyPath, "--ssl-cert-file=" + certPath}
	// authorityFlag names the authorities. They are read at the start only.
	authorityFlag = "--ssl-ca-file=" + bundlePath
)

// AuthorityName returns the name of the Secret with the authorities that a cluster's programs trust.
func AuthorityName(cluster string) string { return cluster + "-ca" }

// CertificateName returns the name of the Secret with the certificate of a server.
func CertificateName(server string) string { return server + "-tls" }

// secured makes a part that serves TLS at its first port, with the certificate of its Service.
func (p *part) secured() {
	p.secure = true
	p.ports[0].Name = "https"
	p.certified()
}

// certified gives a part the certificate of its Service.
func (p *part) certified() {
	if p.files == nil {
		p.files = map[string]corev1.VolumeSource{}
	}
	p.files[trust.Dir] = secretFiles(CertificateName(p.about.Name), trust.Cert, trust.Key, trust.Bundle)
}

// security returns the certificates of a cluster's programs, with the authorities that they shall trust.
// It is nil for a cluster without TLS.
func (op *Operator) security(ctx context.Context, c *api.NeonCluster) *Certifier {
	if stageOf(c) == plain {
		return nil
	}
	s := &Certifier{Secrets: op.Secrets, Terms: op.Certificates, Now: time.Now(), Issuer: IssuerOf(c)}
	data, err := stored(ctx, op.Secrets, kube.Key{Namespace: c.Namespace, Name: AuthorityName(c.Name)})
	if err != nil {
		s.Failed = err
		return s
	}
	if s.Issuer != nil {
		if s.Authorities, s.Failed = op.joined(ctx, c, trust.Read(data), s.Now); s.Failed == nil {
			s.Known, s.Failed = op.trusts(ctx, c, s.newest())
		}
		return s
	}
	var stores []map[string][]byte
	for _, server := range servers(c) {
		was, err := stored(ctx, op.Secrets, kube.Key{Namespace: c.Namespace, Name: CertificateName(server.Name)})
		if err != nil {
			s.Failed = err
			return s
		}
		stores = append(stores, was)
	}
	is := trust.Recall(data, stores...)
	if s.Known, err = op.trusts(ctx, c, is.Newest()); err != nil {
		s.Failed = err
		return s
	}
	s.Authorities, s.Failed = s.Terms.Next(is, s.Now, s.Known)
	s.Known = s.Known && s.newest() == is.Newest()
	return s
}

// stored returns the content of a Secret, nil if there is none.
func stored(ctx context.Context, secrets kube.Resource[corev1.Secret], key kube.Key) (map[string][]byte, error) {
	secret, err := secrets.In(key.Namespace).Cached().Get(ctx, key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return secret.Data, nil
}

// trusts reports that all programs were started with an authority, and run.
func (op *Operator) trusts(ctx context.Context, c *api.NeonCluster, authority string) (bool, error) {
	controller, err := op.Deployments.In(c.Namespace).Cached().Get(ctx, about(c, "controller").Name)
	if err != nil {
		return false, unlessMissing(err)
	}
	if controller.Spec.Template.Annotations[authorityAnnotation] != authority || !ready.Is(controller) {
		return false, nil
	}
	var names []string
	for _, id := range safekeeperIDs(c) {
		names = append(names, safekeeperName(c.Name, id))
	}
	for _, id := range pageserverIDs(c) {
		names = append(names, pageserverName(c.Name, id))
	}
	for _, name := range names {
		set, err := op.StatefulSets.In(c.Namespace).Cached().Get(ctx, name)
		if err != nil {
			return false, unlessMissing(err)
		}
		if set.Spec.Template.Annotations[authorityAnnotation] != authority || !runs(set) {
			return false, nil
		}
	}
	return true, nil
}

// runs reports that the pods of a StatefulSet are ready and were made from its template.
func runs(s *appsv1.StatefulSet) bool { return ready.Is(s) && !isOutdated(s) }

// unlessMissing returns an error unless it says that an object does not exist.
func unlessMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// authority describes the Secret with the authorities. It is nil for a cluster without TLS.
func (op *Operator) authority(p *plan.Plan, c *api.NeonCluster, s *Certifier) *plan.Node[corev1.Secret] {
	if s == nil {
		return nil
	}
	node := plan.Object(p, "authority", op.Secrets, func(plan.Inputs) (*corev1.Secret, error) {
		switch {
		case s.Failed != nil:
			return nil, s.Failed
		case len(s.Authorities) == 0:
			return nil, errors.New("the Secrets that cert-manager has made have no ca.crt: name an issuer with an authority of its own")
		}
		data, err := s.Authorities.Data()
		return &corev1.Secret{ObjectMeta: named(c, AuthorityName(c.Name)), Data: data}, err
	})
	if s.Issuer != nil && op.Issued != nil {
		node.Needs(op.issued(p, c))
	}
	return node
}

// certificate describes the Secret with the certificate of a program with one pod. It is nil for a
// cluster without TLS.
func (op *Operator) certificate(
	ctx context.Context, p *plan.Plan, s *Certifier, authority *plan.Node[corev1.Secret], about metav1.ObjectMeta,
) plan.Need {
	if s == nil {
		return nil
	}
	name := about.Labels[componentLabel] + "-certificate"
	return plan.Object(p, name, op.Secrets, func(plan.Inputs) (*corev1.Secret, error) {
		return op.server(ctx, s, about)
	}).Needs(authority)
}

// certificates describes those of all members of a component. It is nil for a cluster without TLS.
func (op *Operator) certificates(
	ctx context.Context, p *plan.Plan, c *api.NeonCluster, s *Certifier, authority *plan.Node[corev1.Secret],
	component string, ids []string, numbers map[string]int64,
) *plan.Nodes[corev1.Secret] {
	if s == nil {
		return nil
	}
	return plan.Each(p, component+"-certificate", ids, op.Secrets,
		func(_ plan.Inputs, key string) (*corev1.Secret, error) {
			return op.server(ctx, s, aboutMember(c, component, numbers[key]))
		}).Needs(authority)
}

// server returns the Secret with the certificate of a Service.
func (op *Operator) server(ctx context.Context, s *Certifier, about metav1.ObjectMeta) (*corev1.Secret, error) {
	return s.Secret(ctx, about, serverNames(about))
}

// serverNames returns the names of a server of a cluster. Some are also called through a second Service.
func serverNames(about metav1.ObjectMeta) []string {
	names := ServiceNames(about.Name, about.Namespace)
	if slices.Contains(crossed, about.Labels[componentLabel]) {
		names = append(names, host(crossingName(about.Name), about.Namespace))
	}
	return names
}

// ServiceNames returns the names of a Service, for its certificate.
func ServiceNames(service, namespace string) []string {
	return []string{host(service, namespace), service + "." + namespace, service}
}
