// Package lab runs the stand-ins for Neon's storage in a test: a broker, a storage controller with
// a real PostgreSQL, safekeepers and pageservers, all within the test's process. Each
// keeps its ports and its directory when it is stopped and started again.
package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/internal/objects"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/broker"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/controller"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/pageserver"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/safekeeper"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// Config says what a lab is like. Its zero value has the real programs' times.
type Config struct {
	// Hooks is the URL of the control plane, or "".
	Hooks string
	// Quiet leaves the background work of the storage controller to the test, which
	// calls Heartbeat, Settle and Optimise.
	Quiet bool
	// TenantRate is the storage controller's limit for each tenant. The default is 10.
	TenantRate int
	// DatabaseWait is that of the storage controller. The default is 30 s.
	DatabaseWait time.Duration
	// TLS has the programs serve and demand TLS, if it is set. The broker has none.
	TLS *TLS
}

// TLS is about the certificates of a lab's programs. Their names are those of Lab.Port.
type TLS struct {
	// Dir returns the directory with tls.crt, tls.key and ca.crt of a program.
	Dir func(program string) string
	// Host returns the host and the port by which others know a program's HTTP service, and that
	// of its port for PostgreSQL.
	Host func(program string) (host string, http, pg int)
	// Mode returns the mode of a program that starts. Default: TLS only.
	Mode func(program string) Mode
}

// Mode has the ports of a program, and the way in which it calls others.
type Mode struct {
	// Plain and Secure are set for a port without TLS, and for one with it. If both are, the latter is Lab.Port
	// of the name with "-tls" behind it.
	Plain, Secure bool
	// ByTLS has the storage controller call the others with TLS.
	ByTLS bool
	// HTTPS is the port by which others know the service with TLS.
	HTTPS int
	// Controller is the URL of the storage controller, for a pageserver.
	Controller string
}

// Lab is a running set of stand-ins.
type Lab struct {
	Config
	Key      token.Key
	Postgres *Postgres
	// Controller, Keepers and Pageservers are those that run.
	Controller  *controller.Controller
	Keepers     map[int]*safekeeper.Safekeeper
	Pageservers map[int]*pageserver.Pageserver
	// HTTP makes all requests among the stand-ins.
	HTTP *http.Client
	// Resolve, if it is set, returns the address of a name that others know a program by. It
	// is called on any goroutine.
	Resolve func(address string) string

	dir string
	// distribution is the pg_distrib_dir of pageservers.
	distribution string
	running      map[string]*program
	ports        map[string]int
}

type program struct {
	stop context.CancelFunc
	over chan struct{}
	err  error
}

// New starts a broker and a database. All that runs ends with the test.
func New(t testing.TB, c Config) *Lab {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	l := &Lab{
		Config: c, Key: token.New(), Postgres: StartPostgres(t), Keepers: map[int]*safekeeper.Safekeeper{},
		Pageservers: map[int]*pageserver.Pageserver{}, HTTP: &http.Client{Transport: transport},
		dir: t.TempDir(), running: map[string]*program{}, ports: map[string]int{},
	}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.Resolve != nil {
			address = l.Resolve(address)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(func() {
		for name := range l.running {
			l.Stop(t, name)
		}
	})
	// Other users, such as that of initdb, cannot read the test's own directory.
	distribution, err := os.MkdirTemp("", "pintle-neon-lab-distribution-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, distribution) })
	if err := os.Chmod(distribution, 0o755); err != nil {
		t.Fatal(err)
	}
	l.distribution = distribution
	// The versions that Neon's images have, all of them the one that is installed.
	for _, version := range []string{"v14", "v15", "v16", "v17"} {
		if err := os.Symlink(filepath.Dir(Programs(t)), filepath.Join(distribution, version)); err != nil {
			t.Fatal(err)
		}
	}
	l.write(t, "public.pem", l.Key.Public().PEM())
	l.StartBroker(t)
	return l
}

// StartBroker starts the broker again. It knows nothing: the safekeepers tell it each second.
func (l *Lab) StartBroker(t testing.TB) {
	t.Helper()
	b := &broker.Broker{}
	listener := l.listen(t, "broker")
	l.start("broker", func(ctx context.Context) error { return b.Run(ctx, listener) })
}

// Trust makes another key that of the programs that are started from then on.
func (l *Lab) Trust(t testing.TB, key token.Key) {
	t.Helper()
	l.Key = key
	l.write(t, "public.pem", key.Public().PEM())
}

func (l *Lab) write(t testing.TB, name string, content []byte) {
	t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Port returns the port of a service, such as "controller", "broker", "safekeeper-1",
// "safekeeper-1-pg", "pageserver-1" and "pageserver-1-pg".
func (l *Lab) Port(t testing.TB, name string) int {
	t.Helper()
	if l.ports[name] == 0 {
		l.ports[name] = testport.Port(t)
	}
	return l.ports[name]
}

// URL returns the address of a service.
func (l *Lab) URL(t testing.TB, name string) string {
	t.Helper()
	return fmt.Sprintf("http://127.0.0.1:%d", l.Port(t, name))
}

func (l *Lab) listen(t testing.TB, name string) net.Listener {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port(t, name)))
	var listener net.Listener
	kubetest.Eventually(t, "the port of "+name+" is free", func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	return listener
}

func (l *Lab) start(name string, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	p := &program{stop: stop, over: make(chan struct{})}
	l.running[name] = p
	go func() {
		defer close(p.over)
		p.err = run(ctx)
	}()
}

// Stop ends a program at once.
func (l *Lab) Stop(t testing.TB, name string) {
	t.Helper()
	p := l.running[name]
	if p == nil {
		t.Fatalf("%s does not run", name)
	}
	p.stop()
	<-p.over
	delete(l.running, name)
}

// Over waits for the end of a program, and returns its error.
func (l *Lab) Over(t testing.TB, name string) error {
	t.Helper()
	p := l.running[name]
	kubetest.Eventually(t, name+" ends", func() error {
		select {
		case <-p.over:
			return nil
		default:
			return errors.New("it runs")
		}
	})
	delete(l.running, name)
	return p.err
}

// StartController starts the storage controller.
func (l *Lab) StartController(t testing.TB) {
	t.Helper()
	public := l.Key.Public()
	config := controller.Config{
		DatabaseURL: l.Postgres.URL, DatabaseWait: 30 * time.Second, Hooks: l.Hooks, Auth: wire.Auth{Key: &public},
		PageserverToken: l.Token(token.Pageserver), SafekeeperToken: l.Token(token.Safekeeper), HooksToken: l.Token("hooks"),
		HTTP: l.HTTP, TimelinesOntoSafekeepers: true, SafekeeperCount: 3, RestoreLostDisks: true,
		MaxOffline: 30 * time.Second, MaxWarmingUp: 5 * time.Minute, HeartbeatEvery: 5 * time.Second, SettleEvery: 10 * time.Second,
		TenantRate: 10,
	}
	if l.Quiet {
		config.HeartbeatEvery, config.SettleEvery = time.Hour, time.Hour
	}
	if l.TenantRate > 0 {
		config.TenantRate = l.TenantRate
	}
	if l.DatabaseWait > 0 {
		config.DatabaseWait = l.DatabaseWait
	}
	mode := l.mode(t, "controller")
	if l.TLS != nil {
		config.HTTP, config.PageserversByTLS, config.SafekeepersByTLS = l.client(t, "controller"), mode.ByTLS, mode.ByTLS
		config.Lookup = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	c, err := controller.Open(t.Context(), config, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	l.Controller = c
	open, secure := l.listeners(t, "controller")
	listeners := slices.Concat(open, secure)
	l.start("controller", func(ctx context.Context) error {
		defer func() {
			for _, listener := range listeners {
				listener.Close()
			}
		}()
		return c.Run(ctx, listeners...)
	})
	l.answers(t, "controller", "/ready")
}

// StartSafekeeper starts the safekeeper with an ID.
func (l *Lab) StartSafekeeper(t testing.TB, id int) {
	t.Helper()
	name := fmt.Sprintf("safekeeper-%d", id)
	public := l.Key.Public()
	if err := os.MkdirAll(l.KeeperDir(id), 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := objects.Open(objects.Config{LocalPath: l.Bucket("safekeeper")}, objects.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	config := safekeeper.Config{
		Dir: l.KeeperDir(id), ID: int64(id), Zone: fmt.Sprintf("zone-%d", id), Broker: l.URL(t, "broker"),
		AdvertisePG: fmt.Sprintf("127.0.0.1:%d", l.Port(t, name+"-pg")), Auth: wire.Auth{Key: &public},
		Token: l.Token(token.Safekeeper), HTTP: l.HTTP, Objects: store,
	}
	mode, on := l.mode(t, name), safekeeper.Listeners{PG: []net.Listener{l.listen(t, name+"-pg")}}
	on.HTTP, on.HTTPS = l.listeners(t, name)
	if l.TLS != nil {
		host, _, pg := l.TLS.Host(name)
		config.HTTP, config.AdvertisePG = l.client(t, name), net.JoinHostPort(host, strconv.Itoa(pg))
		config.AdvertiseHTTPS = net.JoinHostPort(host, strconv.Itoa(mode.HTTPS))
	}
	if mode.Secure {
		on.PG[0] = wire.ListenPostgres(on.PG[0], l.config(t, name))
	}
	s, err := safekeeper.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	l.Keepers[id] = s
	l.start(name, func(ctx context.Context) error { return s.Run(ctx, on) })
	l.answers(t, name, "/v1/status")
}

// KeeperDir returns the volume of a safekeeper.
func (l *Lab) KeeperDir(id int) string {
	return filepath.Join(l.dir, fmt.Sprintf("safekeeper-%d", id))
}

// Bucket returns the directory in place of a bucket.
func (l *Lab) Bucket(prefix string) string { return filepath.Join(l.dir, "bucket", prefix) }

// bases are shared by the labs of a test's process: initdb takes longer than many a test.
var bases pageserver.Bases

// StartPageserver starts the pageserver with an ID. It may wait for the storage controller: see
// WaitPageserver.
func (l *Lab) StartPageserver(t testing.TB, id int) {
	t.Helper()
	l.StartPageserverAs(t, id, id)
}

// StartPageserverAs starts the pageserver of a number with the identity of another.
func (l *Lab) StartPageserverAs(t testing.TB, number, id int) {
	t.Helper()
	name := fmt.Sprintf("pageserver-%d", number)
	mode := l.mode(t, name)
	l.write(t, name+"/identity.toml", fmt.Appendf(nil, "id=%d\n", id))
	l.write(t, name+"/pageserver.toml", fmt.Appendf(nil, `
listen_pg_addr='127.0.0.1:%d'
listen_http_addr='127.0.0.1:%d'
broker_endpoint='%s'
pg_distrib_dir='%s'
control_plane_api='%s/upcall/v1/'
control_plane_api_token='%s'
http_auth_type='NeonJWT'
pg_auth_type='NeonJWT'
grpc_auth_type='NeonJWT'
auth_validation_public_key_path='%s'
availability_zone='zone-%d'
remote_storage={local_path='%s'}
`, l.Port(t, name+"-pg"), l.Port(t, name), l.URL(t, "broker"), l.distribution, mode.Controller,
		l.Token(token.Generations), filepath.Join(l.dir, "public.pem"), number, l.Bucket("pageserver")))
	metadata := fmt.Appendf(nil,
		`{"host":"127.0.0.1","port":%d,"http_host":"127.0.0.1","http_port":%d,"availability_zone_id":"zone-%d"}`,
		l.Port(t, name+"-pg"), l.Port(t, name), number)
	if l.TLS != nil {
		host, http, pg := l.TLS.Host(name)
		https := "null"
		if mode.Secure {
			https = strconv.Itoa(mode.HTTPS)
		}
		metadata = fmt.Appendf(nil,
			`{"host":%q,"port":%d,"http_host":%q,"http_port":%d,"https_port":%s,"availability_zone_id":"zone-%d"}`,
			host, pg, host, http, https, number)
	}
	l.write(t, name+"/metadata.json", metadata)
	p, err := pageserver.Open(filepath.Join(l.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	p.Token, p.HTTP, p.RetryEvery, p.Log = l.Token(token.Safekeeper), l.HTTP, 20*time.Millisecond, slog.New(slog.DiscardHandler)
	p.Bases = &bases
	l.Pageservers[number] = p
	open, secure := l.listeners(t, name)
	on := pageserver.Listeners{HTTP: slices.Concat(open, secure), PG: []net.Listener{l.listen(t, name+"-pg")}}
	if mode.Secure {
		p.HTTP, p.CA = l.client(t, name), l.authorities(name)
		on.PG[0] = wire.ListenPostgres(on.PG[0], l.config(t, name))
	}
	l.start(name, func(ctx context.Context) error { return p.Run(ctx, on) })
}

// WaitPageserver waits until a pageserver is registered and answers.
func (l *Lab) WaitPageserver(t testing.TB, id int) {
	t.Helper()
	l.answers(t, fmt.Sprintf("pageserver-%d", id), "/v1/status")
}

func (l *Lab) answers(t testing.TB, program, path string) {
	t.Helper()
	url, client := l.URL(t, program)+path, l.HTTP
	if !l.mode(t, program).Plain {
		url, client = l.known(program)+path, l.client(t, program)
	}
	kubetest.Eventually(t, url+" answers", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return wire.Client{HTTP: client}.Do(ctx, http.MethodGet, url, nil, nil)
	})
}

// Token returns a token with a scope.
func (l *Lab) Token(scope token.Scope) string { return l.Key.Sign(token.Claims{Scope: scope}) }
