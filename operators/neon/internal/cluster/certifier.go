package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/certmanager"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
)

// Certifier makes the Secrets with the certificates of a cluster's programs and computes.
type Certifier struct {
	Secrets     kube.Resource[corev1.Secret]
	Terms       trust.Terms
	Now         time.Time
	Authorities trust.Authorities
	// Issuer is that of cert-manager, nil for an authority of the cluster's own.
	Issuer *api.Issuer
	// Known says that all who connect trust the newest authority.
	Known bool
	// Failed is the reason why there are no certificates, or nil.
	Failed error

	made []map[string][]byte
}

// Secret returns the Secret with the certificate of a server with names. It is called after the server,
// and is what it was unless it has to be made again.
func (c *Certifier) Secret(ctx context.Context, server metav1.ObjectMeta, names []string) (*corev1.Secret, error) {
	if c.Failed != nil {
		return nil, c.Failed
	}
	secret := &corev1.Secret{ObjectMeta: server, Type: corev1.SecretTypeTLS}
	secret.Name = CertificateName(server.Name)
	was, err := stored(ctx, c.Secrets, kube.KeyOf(secret))
	if err != nil {
		return nil, err
	}
	if c.Issuer == nil {
		if secret.Data, err = c.Terms.Server(c.Authorities, was, names, c.Now, c.Known); err != nil {
			return nil, fmt.Errorf("make certificate of %s: %w", server.Name, err)
		}
		c.made = append(c.made, secret.Data)
		return secret, nil
	}
	from := kube.Key{Namespace: server.Namespace, Name: certmanager.SecretName(server.Name)}
	issued, err := stored(ctx, c.Secrets, from)
	if err != nil {
		return nil, err
	}
	if secret.Data, err = trust.Copy(c.Authorities, was, issued, names, c.Now, c.Known); err != nil {
		return nil, fmt.Errorf("use the certificate in Secret %s: %w", from, err)
	}
	return secret, nil
}

// Due returns when a certificate has to be made next.
func (c *Certifier) Due() controller.Action {
	if c == nil || c.Failed != nil {
		return controller.Done
	}
	return controller.After(c.Terms.Due(c.Authorities, c.Now, c.made...))
}

// newest names the authority with which the programs are to be started. It is empty without TLS.
func (c *Certifier) newest() string {
	if c == nil {
		return ""
	}
	return c.Authorities.Newest()
}
