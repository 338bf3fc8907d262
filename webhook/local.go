package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/pki"
	"github.com/pintle-go/pintle/kube"
)

// local serves hooks on loopback, to an API server on the same machine.
type local struct {
	// url and bundle are where the API server finds the hooks.
	url    string
	bundle []byte
	*registered
	close func() // calls under way have a second to end
}

// localLife is how long the certificate is valid.
const localLife = 365 * 24 * time.Hour

// listen serves hooks at a free port of 127.0.0.1, with a certificate of an authority that nobody
// else has.
func listen(o Options, hooks []Hook) (*local, error) {
	handler, err := Handler(o, hooks...)
	if err != nil {
		return nil, err
	}
	certificate, bundle, err := pki.Loopback(time.Now(), localLife)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a port for webhooks: %w", err)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: maxTimeout, IdleTimeout: 3 * time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12},
		// The API server speaks HTTP/1.1 to hooks.
		TLSNextProto: make(map[string]func(*http.Server, *tls.Conn, http.Handler)),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.ServeTLS(listener, "", "") // it ends with Close
	}()
	return &local{
		url: "https://" + listener.Addr().String(), bundle: bundle,
		registered: &registered{hooks: hooks},
		close: func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if server.Shutdown(ctx) != nil {
				_ = server.Close()
			}
			<-ended
		},
	}, nil
}

// registered is what a process has registered.
type registered struct {
	hooks   []Hook
	client  *kube.Client
	created []*Configuration
}

// of returns the handle of a kind of configurations.
func (r *registered) of(kind string) kube.Resource[Configuration] {
	plural := map[string]string{
		validatingKind: "validatingwebhookconfigurations", mutatingKind: "mutatingwebhookconfigurations",
	}[kind]
	return kube.For[Configuration](r.client, kube.Kind{
		GVK:    kube.GVK{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind},
		Plural: plural, Scope: kube.ClusterScoped,
	})
}

// create registers hooks. A configuration of the same name has an address at which nobody answers any
// more.
func (r *registered) create(ctx context.Context, client *kube.Client, as Registration) error {
	r.client = client
	all, err := as.Configurations(r.hooks...)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := r.of(c.Kind).Delete(ctx, c.Name); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the webhooks of an earlier process: %w", err)
		}
		made, err := r.of(c.Kind).Create(ctx, c)
		if err != nil {
			return fmt.Errorf("register webhooks: %w", err)
		}
		r.created = append(r.created, made)
	}
	return nil
}

// remove deletes the configurations, unless another process has replaced them.
func (r *registered) remove(ctx context.Context) error {
	var failed []error
	for _, c := range r.created {
		err := r.of(c.Kind).Delete(ctx, c.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(c.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = append(failed, fmt.Errorf("remove webhooks: %w", err))
		}
	}
	return errors.Join(failed...)
}
