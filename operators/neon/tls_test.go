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
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/plan"
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
	client := &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: time.Minute}
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
	kubetest.Eventually(t, "PostgreSQL serves the next certificate", func() error {
		is, err := l.tryVerified(authority.Data[trust.Bundle])
		if err == nil && is.serial == was {
			err = fmt.Errorf("it serves %s, as before", was)
		}
		return err
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

// client writes rows, one after the other, and connects again when its session ends.
type client struct {
	acknowledged atomic.Int64
	sessions     int           // in which rows were written
	longest      time.Duration // between two rows
	problem      error         // the last one
}

// write writes rows until ctx ends.
func (c *client) write(ctx context.Context, connect func(context.Context) (*pgx.Conn, error)) {
	last := time.Now()
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		conn, err := connect(limited)
		written := c.acknowledged.Load()
		for err == nil {
			row, done := context.WithTimeout(ctx, 2*time.Minute)
			if _, err = conn.Exec(row, "insert into kept values ($1) on conflict do nothing", c.acknowledged.Load()+1); err == nil {
				c.acknowledged.Add(1)
				c.longest, last = max(c.longest, time.Since(last)), time.Now()
			}
			done()
		}
		cancel()
		c.problem = err
		if conn != nil {
			_ = conn.Close(context.Background()) // its session has ended
		}
		if c.acknowledged.Load() > written {
			c.sessions++
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond): // before it connects again
		}
	}
}

// TestTLSLater adds TLS to a NeonDatabase that holds data, and removes it, while a client writes. The programs are
// processes with the flags, the files and the configurations that the operator made. No row that was acknowledged
// is lost, and the session ends only when its compute is restarted.
func TestTLSLater(t *testing.T) {
	t.Parallel()
	l := newLand(t)
	l.run(l.kubeconfig)
	optest.Expect(t, l.operator, "controller runs", "controller=neoncluster")
	l.order("orders")
	until(l.bench, l.databases, "orders", databaseStatus, "is ready",
		func(d *api.NeonDatabase) bool { return isReady(d, d.Status.Conditions) })
	var n int
	login := l.login("orders", &n, "select 1")
	config, err := pgx.ParseConfig(string(login.Data["direct-uri"]) + "?sslmode=disable")
	l.ok(err)
	dial := dialHosts(l.hostsFile)
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
	connect := func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config) }
	conn, err := connect(l.soon())
	l.ok(err)
	_, err = conn.Exec(l.soon(), "create table kept (n integer primary key)")
	l.ok(err)
	l.ok(conn.Close(l.soon()))

	for _, tls := range []*api.TLS{new(api.TLS), nil} {
		ctx, cancel := context.WithCancel(t.Context())
		c, over := new(client), make(chan struct{})
		l.ok(l.exec(connect, "delete from kept"))
		go func() {
			defer close(over)
			c.write(ctx, connect)
		}()
		writes := func(more int64) func() error {
			return func() error {
				if n := c.acknowledged.Load(); n <= more {
					return fmt.Errorf("%d rows are acknowledged", n)
				}
				return nil
			}
		}
		kubetest.Eventually(t, "the client writes", writes(0))
		_, err := l.databases.Modify(l.soon(), "orders", func(d *api.NeonDatabase) error {
			d.Spec.TLS = tls
			return nil
		})
		l.ok(err)
		until(l.bench, l.clusters, "orders", func(c *api.NeonCluster) *plan.Status { return &c.Status.Status }, "has changed its TLS",
			func(c *api.NeonCluster) bool {
				done := c.Status.TLS == nil
				if tls != nil {
					done = !done && c.Status.TLS.Step == "On"
				}
				return done && (c.Spec.TLS != nil) == (tls != nil) && isReady(c, c.Status.Conditions)
			})
		kubetest.Eventually(t, "the compute is restarted", func() error {
			pod, err := kube.For[corev1.Pod](l.client).In(l.namespace).Get(l.soon(), "orders-compute-0")
			if err != nil {
				return err
			}
			secure := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "tls" })
			if pod.DeletionTimestamp != nil || secure != (tls != nil) {
				return fmt.Errorf("the pod has TLS: %t, it is deleted since %s", secure, pod.DeletionTimestamp)
			}
			return nil
		})
		until(l.bench, l.databases, "orders", databaseStatus, "is ready",
			func(d *api.NeonDatabase) bool { return isReady(d, d.Status.Conditions) })
		// The client goes on after the change.
		kubetest.Eventually(t, "the database can be written", func() error {
			return l.exec(connect, "create table if not exists other ()")
		})
		kubetest.Eventually(t, "the client goes on", writes(c.acknowledged.Load()))
		cancel()
		<-over
		acknowledged := int(c.acknowledged.Load())
		t.Logf("%d rows in %d sessions, the longest pause was %s; %v", acknowledged, c.sessions, c.longest, c.problem)
		if c.sessions != 2 {
			t.Errorf("the client had %d sessions, although its compute was restarted once: %v", c.sessions, c.problem)
		}
		l.login("orders", &n, "select count(*) from kept")
		// The last row may be there without an answer.
		if n < acknowledged || n > acknowledged+1 || n == 0 {
			t.Errorf("%d rows are there, %d were acknowledged", n, acknowledged)
		}
		if authority, err := l.secrets.Get(l.soon(), cluster.AuthorityName("orders")); tls != nil {
			l.ok(err)
			secure, err := l.tryVerified(authority.Data[trust.Bundle])
			l.ok(err)
			if !secure.ssl {
				t.Error("the session has no TLS")
			}
		}
	}
	gone(l.bench, l.databases, "orders")
}

// exec runs a statement in a session of its own.
func (l *land) exec(connect func(context.Context) (*pgx.Conn, error), statement string) error {
	conn, err := connect(l.soon())
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(l.soon(), statement)
	return err
}
