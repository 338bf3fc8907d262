package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/pintle-go/pintle/operators/neon/internal/objects"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/clap"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/safekeeper"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

func runSafekeeper(ctx context.Context, args []string, _ io.Writer) error {
	f := clap.New("safekeeper")
	f.Repeats = true
	c := safekeeper.Config{Log: newLog()}
	var pg, pgTenant, http, byTLS, key, certificate, ca, remote, tokenPath, httpKey, pgKey string
	var initialise, walByTLS bool
	for _, name := range []string{"D", "datadir"} {
		f.StringVar(&c.Dir, name, "./", "")
	}
	for _, name := range []string{"l", "listen-pg"} {
		f.StringVar(&pg, name, "127.0.0.1:5454", "")
	}
	f.Int64Var(&c.ID, "id", 0, "")
	f.BoolVar(&initialise, "init", false, "")
	f.StringVar(&pgTenant, "listen-pg-tenant-only", "", "")
	f.StringVar(&http, "listen-http", "127.0.0.1:7676", "")
	f.StringVar(&byTLS, "listen-https", "", "")
	f.StringVar(&c.AdvertisePG, "advertise-pg", "", "")
	f.StringVar(&c.Zone, "availability-zone", "", "")
	f.StringVar(&c.Broker, "broker-endpoint", "http://127.0.0.1:50051", "")
	f.StringVar(&remote, "remote-storage", "", "")
	f.StringVar(&pgKey, "pg-auth-public-key-path", "", "")
	f.StringVar(&httpKey, "http-auth-public-key-path", "", "")
	f.StringVar(&tokenPath, "auth-token-path", "", "")
	f.StringVar(&key, "ssl-key-file", "server.key", "")
	f.StringVar(&certificate, "ssl-cert-file", "server.crt", "")
	f.StringVar(&ca, "ssl-ca-file", "", "")
	f.Ignored("dump-control-file", "broker-keepalive-interval", "heartbeat-timeout", "peer-recovery", "max-offloader-lag",
		"max-reelect-offloader-lag-bytes", "max-timeline-disk-usage-bytes", "max-global-disk-usage-ratio",
		"global-disk-check-interval", "wal-backup-parallel-jobs", "pg-tenant-only-auth-public-key-path", "log-format",
		"partial-backup-timeout", "control-file-save-interval", "partial-backup-concurrency", "eviction-min-resident",
		"max-delta-for-fanout", "ssl-cert-reload-period")
	f.BoolVar(&walByTLS, "enable-tls-wal-service-api", false, "")
	f.Switches("n", "no-sync", "disable-wal-backup", "current-thread-runtime", "walsenders-keep-horizon",
		"disable-periodic-broker-push", "enable-offload", "delete-offloaded-wal", "wal-reader-fanout",
		"use-https-safekeeper-api", "force-metric-collection-on-scrape", "enable-pull-timeline-on-startup", "dev")
	if err := f.Parse(args); err != nil {
		return err
	}
	if remote != "" {
		var config struct {
			Remote objects.Config `toml:"remote_storage"`
		}
		if _, err := toml.Decode("remote_storage="+remote, &config); err != nil {
			return clap.Errorf("invalid value for '--remote-storage': %v", err)
		}
		store, err := objects.Open(config.Remote, objects.CredentialsFromEnvironment())
		if err != nil {
			return err
		}
		c.Objects = store
	}
	// The stand-in has one key for both services.
	if path := cmp.Or(httpKey, pgKey); path != "" {
		auth, err := readAuth(path)
		if err != nil {
			return err
		}
		c.Auth = auth
	}
	if tokenPath != "" {
		text, err := os.ReadFile(tokenPath)
		if err != nil {
			return fmt.Errorf("read token: %w", err)
		}
		c.Token = strings.TrimSpace(string(text))
	}
	c.AdvertisePG = cmp.Or(c.AdvertisePG, pg)
	client, err := wire.ClientTrusting(ca)
	if err != nil {
		return err
	}
	c.HTTP = client
	s, err := safekeeper.Open(c)
	if err != nil {
		return err
	}
	if initialise {
		s.Close()
		return nil
	}
	var secure *tls.Config
	if byTLS != "" || walByTLS {
		if secure, err = wire.ServerTLS(certificate, key); err != nil {
			return err
		}
	}
	on, err := safekeeperListeners(secure, http, byTLS, walByTLS, pg, pgTenant)
	if err != nil {
		return err
	}
	if err := admin(ctx, &s.Faults); err != nil {
		return err
	}
	return s.Run(ctx, on)
}

func safekeeperListeners(
	secure *tls.Config, http, byTLS string, walByTLS bool, pg ...string,
) (safekeeper.Listeners, error) {
	var on safekeeper.Listeners
	plain, err := listen(http)
	if err != nil {
		return on, err
	}
	on.HTTP = append(on.HTTP, plain)
	if byTLS != "" {
		listener, err := listen(byTLS)
		if err != nil {
			return on, err
		}
		on.HTTPS = append(on.HTTPS, tls.NewListener(listener, secure))
	}
	for _, address := range pg {
		if address == "" {
			continue
		}
		listener, err := listen(address)
		if err != nil {
			return on, err
		}
		if walByTLS {
			listener = wire.ListenPostgres(listener, secure)
		}
		on.PG = append(on.PG, listener)
	}
	return on, nil
}

func readAuth(path string) (wire.Auth, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return wire.Auth{}, fmt.Errorf("failed to load the auth key: %w", err)
	}
	key, err := token.ParsePublic(text)
	if err != nil {
		return wire.Auth{}, fmt.Errorf("failed to load the auth key: %w", err)
	}
	return wire.Auth{Key: &key}, nil
}
