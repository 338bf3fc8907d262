package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd runs a cluster of one etcd member. It speaks TLS only, and only to clients with
// a certificate.
func runEtcd() int {
	var dir, listen, metrics string
	var tls transport.TLSInfo
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	flags.StringVar(&dir, "data-dir", "", "directory of the data; also the working directory of the peer socket")
	flags.StringVar(&listen, "listen-client-url", "", "URL to serve clients on, as https://address:port")
	flags.StringVar(&metrics, "listen-metrics-url", "", "URL to serve metrics on, as http://address:port; empty for no metrics")
	flags.StringVar(&tls.TrustedCAFile, "trusted-ca-file", "", "authority of the clients' certificates")
	flags.StringVar(&tls.CertFile, "cert-file", "", "certificate to serve with")
	flags.StringVar(&tls.KeyFile, "key-file", "", "key of the certificate")
	_ = flags.Parse(os.Args[1:]) // it exits by itself
	tls.ClientCertAuth = true

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serveEtcd(ctx, dir, listen, metrics, tls); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	return 0
}

func serveEtcd(ctx context.Context, dir, listen, metrics string, tls transport.TLSInfo) error {
	client, err := url.Parse(listen)
	if err != nil {
		return fmt.Errorf("parse listen-client-url: %w", err)
	}
	// etcd requires a listener for peers, and there are none: a socket in its own
	// directory keeps them out, and needs no port.
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("enter data directory: %w", err)
	}
	peer := url.URL{Scheme: "unix", Host: "peer:0"}

	config := embed.NewConfig()
	config.Dir = dir
	config.LogLevel = "warn"
	config.LogOutputs = []string{"stderr"}
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ClientTLSInfo = tls
	config.ListenPeerUrls = []url.URL{peer}
	config.AdvertisePeerUrls = []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	if metrics != "" {
		u, err := url.Parse(metrics)
		if err != nil {
			return fmt.Errorf("parse listen-metrics-url: %w", err)
		}
		config.ListenMetricsUrls = []url.URL{*u}
	}

	// Every write reaches the kernel, so it survives the end of etcd, even a sudden one,
	// but perhaps not a power failure. Syncing every write would make a laptop's cluster
	// several times slower.
	config.UnsafeNoFsync = true
	// A lone member elects itself, so it need not wait long for others.
	config.TickMs, config.ElectionMs = 10, 100
	config.QuotaBackendBytes = 8 << 30

	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return err
	case <-server.Server.StopNotify():
		return errors.New("the server stopped by itself")
	}
}
