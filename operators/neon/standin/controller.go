package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/clap"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/controller"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

func runController(ctx context.Context, args []string, _ io.Writer) error {
	f := clap.New("storage_controller")
	var address, byTLS, key, certificate, ca, public, url string
	var dev, local bool
	c := controller.Config{DatabaseWait: 30 * time.Second, SettleEvery: 10 * time.Second, Log: newLog()}
	for _, name := range []string{"l", "listen"} {
		f.StringVar(&address, name, "", "")
	}
	f.StringVar(&byTLS, "listen-https", "", "")
	f.StringVar(&key, "ssl-key-file", "server.key", "")
	f.StringVar(&certificate, "ssl-cert-file", "server.crt", "")
	f.StringVar(&ca, "ssl-ca-file", "", "")
	f.StringVar(&public, "public-key", os.Getenv("PUBLIC_KEY"), "")
	f.StringVar(&url, "database-url", os.Getenv("DATABASE_URL"), "")
	f.StringVar(&c.PageserverToken, "jwt-token", os.Getenv("PAGESERVER_JWT_TOKEN"), "")
	f.StringVar(&c.SafekeeperToken, "safekeeper-jwt-token", os.Getenv("SAFEKEEPER_JWT_TOKEN"), "")
	f.StringVar(&c.HooksToken, "control-plane-jwt-token", os.Getenv("CONTROL_PLANE_JWT_TOKEN"), "")
	f.StringVar(&c.Hooks, "control-plane-url", "", "")
	f.BoolVar(&dev, "dev", false, "")
	f.BoolVar(&c.PageserversByTLS, "use-https-pageserver-api", false, "")
	f.BoolVar(&c.SafekeepersByTLS, "use-https-safekeeper-api", false, "")
	f.BoolVar(&c.TimelinesOntoSafekeepers, "timelines-onto-safekeepers", false, "")
	f.BoolVar(&c.RestoreLostDisks, "handle-ps-local-disk-loss", false, "")
	f.IntVar(&c.SafekeeperCount, "timeline-safekeeper-count", 3, "")
	f.IntVar(&c.TenantRate, "tenant-rate-limit", 10, "")
	wait := duration(5 * time.Second)
	f.Var(&wait, "db-connect-timeout", "")
	offline, warming, heartbeat := duration(30*time.Second), duration(5*time.Minute), duration(5*time.Second)
	f.Var(&offline, "max-offline-interval", "")
	f.Var(&warming, "max-warming-up-interval", "")
	f.Var(&heartbeat, "heartbeat-interval", "")
	f.Ignored("peer-jwt-token", "split-threshold", "initial-split-threshold", "initial-split-shards", "max-split-shards",
		"reconciler-concurrency", "priority-reconciler-concurrency", "safekeeper-reconciler-concurrency", "address-for-peers",
		"neon-local-repo-dir", "chaos-interval", "chaos-exit-crontab", "max-secondary-lag-bytes", "long-reconcile-threshold",
		"ssl-cert-reload-period", "shard-split-request-timeout", "kick-secondary-downloads")
	f.BoolVar(&local, "use-local-compute-notifications", false, "")
	f.Switches("start-as-candidate")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case address == "" && byTLS == "":
		return clap.Errorf("the following required arguments were not provided: --listen <LISTEN>")
	case url == "":
		return errors.New("Database URL is not set (set `--database-url`, or `DATABASE_URL` environment)") //nolint:staticcheck // upstream's text
	case !dev && (public == "" || c.PageserverToken == "" || c.HooksToken == "" || c.SafekeeperToken == ""):
		return errors.New("Insecure config!  One or more secrets is not set.  This is only permitted in `--dev` mode") //nolint:staticcheck // the same
	case !dev && c.Hooks == "":
		return errors.New("`--control-plane-url` is not set: this is only permitted in `--dev` mode")
	case !dev && local:
		return errors.New("`--use-local-compute-notifications` is only permitted in `--dev` mode")
	case !dev && c.SafekeeperCount < 3:
		return errors.New("Running with less than 3 safekeepers per timeline is only permitted in `--dev` mode") //nolint:staticcheck // the same
	}
	c.DatabaseURL, c.MaxOffline, c.MaxWarmingUp, c.HeartbeatEvery =
		url, time.Duration(offline), time.Duration(warming), time.Duration(heartbeat)
	if public != "" {
		parsed, err := token.ParsePublic([]byte(public))
		if err != nil {
			return fmt.Errorf("loading public key: %w", err)
		}
		c.Auth = wire.Auth{Key: &parsed}
	}
	client, err := wire.ClientTrusting(ca)
	if err != nil {
		return err
	}
	c.HTTP = client
	var listeners []net.Listener
	if address != "" {
		listener, err := listen(address)
		if err != nil {
			return err
		}
		listeners = append(listeners, listener)
	}
	if byTLS != "" {
		listener, err := wire.ListenTLS(byTLS, certificate, key)
		if err != nil {
			return err
		}
		listeners = append(listeners, listener)
	}
	opened, err := controller.Open(ctx, c, time.Duration(wait))
	if err != nil {
		return err
	}
	if err := admin(ctx, &opened.Faults); err != nil {
		return err
	}
	return opened.Run(ctx, listeners...)
}
