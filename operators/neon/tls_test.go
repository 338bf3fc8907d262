package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
)

// TestWholeWithTLS makes a NeonDatabase whose programs talk TLS, as processes with the flags, the
// files and the configurations that the operator made. A client checks the certificate of the
// compute.
func TestWholeWithTLS(t *testing.T) {
	t.Parallel()
	l := newLand(t)
	l.run(l.kubeconfig)
	optest.Expect(t, l.operator, "controller runs", "controller=neoncluster")
	d := new(api.NeonDatabase)
	d.Name, d.Spec.ComputeImageRef, d.Spec.NeonImageRef = "orders", "compute:test", "neon:test"
	d.Spec.PostgresVersion, d.Spec.DeletionPolicy, d.Spec.TLS = "17", api.Delete, new(api.TLS)
	_, err := l.databases.Create(l.soon(), d)
	l.ok(err)
	until(l.bench, l.databases, "orders", databaseStatus, "is ready",
		func(d *api.NeonDatabase) bool { return isReady(d, d.Status.Conditions) })

	authority, err := l.secrets.Get(l.soon(), cluster.AuthorityName("orders"))
	l.ok(err)
	secure, err := l.tryVerified(authority.Data[trust.Bundle])
	l.ok(err)
	if !secure.ssl {
		t.Error("the session has no TLS")
	}
	strange, err := trust.Terms{}.Next(nil, time.Now(), false)
	l.ok(err)
	other, err := strange.Data()
	l.ok(err)
	if _, err := l.tryVerified(other[trust.Bundle]); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client that trusts another authority: %v", err)
	}
	for pod, args := range l.runner.Commands() {
		for _, component := range []string{"broker", "controller", "safekeeper"} {
			if strings.Contains(pod, "-"+component) && !slices.ContainsFunc(args, func(a string) bool {
				return strings.HasPrefix(a, "--ssl-cert-file=")
			}) {
				t.Errorf("%s has no certificate: %q", pod, args)
			}
		}
	}
	dial := dialHosts(l.hostsFile)
	client := &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for _, at := range []string{
		fmt.Sprintf("%s:%d/ready", cluster.ControllerHost("orders", l.namespace), cluster.ControllerPort),
		fmt.Sprintf("orders-broker.%s.svc:%d/status", l.namespace, cluster.BrokerPort),
	} {
		r, err := http.NewRequestWithContext(l.soon(), http.MethodGet, "http://"+at, nil)
		l.ok(err)
		if answer, err := client.Do(r); err == nil {
			answer.Body.Close()
			if answer.StatusCode != http.StatusBadRequest {
				t.Errorf("%s without TLS is answered %s", at, answer.Status)
			}
		}
	}

	t.Log("a certificate that is lost is made again, and PostgreSQL takes it without a restart")
	compute := "orders-compute"
	pods := kube.For[corev1.Pod](l.client).In(l.namespace)
	pod, err := pods.Get(l.soon(), compute+"-0")
	l.ok(err)
	was := secure.serial
	l.ok(l.secrets.Delete(l.soon(), cluster.CertificateName(compute)))
	_, err = l.secrets.Until(l.soon(), cluster.CertificateName(compute), func(s *corev1.Secret) bool { return len(s.Data[trust.Cert]) > 0 })
	l.ok(err)
	lab.Eventually(t, "PostgreSQL serves the next certificate", func() bool {
		is, err := l.tryVerified(authority.Data[trust.Bundle])
		return err == nil && is.serial != was
	})
	now, err := pods.Get(l.soon(), compute+"-0")
	l.ok(err)
	if now.UID != pod.UID {
		t.Error("the compute was restarted")
	}
	gone(l.bench, l.databases, "orders")
}

// session is one whose client has checked the certificate of the compute.
type session struct {
	ssl    bool // as PostgreSQL says
	serial string
}

// tryVerified asks the database whether the session has TLS. It connects as with sslmode=verify-full.
func (l *land) tryVerified(bundle []byte) (s session, err error) {
	l.Helper()
	login, err := l.secrets.Until(l.soon(), "orders-connection", func(s *corev1.Secret) bool { return len(s.Data["uri"]) > 0 })
	l.ok(err)
	config, err := pgx.ParseConfig(string(login.Data["direct-uri"]) + "?sslmode=disable")
	l.ok(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	config.TLSConfig = &tls.Config{RootCAs: pool, ServerName: config.Host, MinVersion: tls.VersionTLS12}
	config.TLSConfig.VerifyConnection = func(c tls.ConnectionState) error {
		s.serial = c.PeerCertificates[0].SerialNumber.String()
		return nil
	}
	dial := dialHosts(l.hostsFile)
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
	c, err := pgx.ConnectConfig(l.soon(), config)
	if err != nil {
		return s, err
	}
	defer c.Close(context.Background())
	err = c.QueryRow(l.soon(), "select ssl from pg_stat_ssl where pid = pg_backend_pid()").Scan(&s.ssl)
	return s, err
}
