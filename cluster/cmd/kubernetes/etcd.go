package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	etcdflags "go.etcd.io/etcd/pkg/v3/flags"
	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd runs etcd with the flags of etcd that one member needs, among them those that
// envtest of controller-runtime gives it. Any other flag is an error. The command of etcd
// itself would need a module that cannot be linked together with the other components.
func runEtcd() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serveEtcd(ctx, etcdConfig(os.Args[1:])); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	return 0
}

func serveEtcd(ctx context.Context, config *embed.Config) error {
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

// etcdConfig reads the flags. Their defaults are etcd's.
func etcdConfig(args []string) *embed.Config {
	c := embed.NewConfig()
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	flags.Usage = func() {
		// envtest looks for flags after two dashes.
		flags.VisitAll(func(f *flag.Flag) { fmt.Fprintf(os.Stderr, "  --%s\n    \t%s\n", f.Name, f.Usage) })
	}
	urls := func(name, value, usage string) {
		flags.Var(etcdflags.NewUniqueURLsWithExceptions(value, ""), name, usage)
	}
	urls("listen-client-urls", embed.DefaultListenClientURLs, "URLs to serve clients on")
	urls("advertise-client-urls", embed.DefaultAdvertiseClientURLs, "URLs that clients are told")
	urls("listen-peer-urls", embed.DefaultListenPeerURLs, "URLs to serve other members on")
	urls("initial-advertise-peer-urls", embed.DefaultInitialAdvertisePeerURLs, "URLs that other members are told")
	urls("listen-metrics-urls", "", "URLs to serve metrics and health on")
	flags.StringVar(&c.InitialCluster, "initial-cluster", c.InitialCluster, "names and peer URLs of the members")
	flags.StringVar(&c.Dir, "data-dir", "default.etcd", "directory of the data")
	flags.BoolVar(&c.UnsafeNoFsync, "unsafe-no-fsync", false, "do not sync writes to the disk")
	flags.BoolVar(&c.ClientTLSInfo.ClientCertAuth, "client-cert-auth", false, "serve only clients with a certificate")
	flags.StringVar(&c.ClientTLSInfo.TrustedCAFile, "trusted-ca-file", "", "authority of the clients' certificates")
	flags.StringVar(&c.ClientTLSInfo.CertFile, "cert-file", "", "certificate to serve with")
	flags.StringVar(&c.ClientTLSInfo.KeyFile, "key-file", "", "key of the certificate")
	flags.UintVar(&c.TickMs, "heartbeat-interval", c.TickMs, "milliseconds between heartbeats")
	flags.UintVar(&c.ElectionMs, "election-timeout", c.ElectionMs, "milliseconds without a heartbeat before an election")
	flags.Int64Var(&c.QuotaBackendBytes, "quota-backend-bytes", c.QuotaBackendBytes, "the largest size of the data")
	flags.UintVar(&c.MaxRequestBytes, "max-request-bytes", c.MaxRequestBytes, "the largest size of a request")
	flags.UintVar(&c.MaxTxnOps, "max-txn-ops", c.MaxTxnOps, "the largest number of operations of a transaction")
	flags.DurationVar(
		&c.WarningUnaryRequestDuration, "warning-unary-request-duration", embed.DefaultWarningUnaryRequestDuration,
		"a request that takes longer is logged",
	)
	flags.StringVar(&c.LogLevel, "log-level", c.LogLevel, "debug, info, warn, error, panic or fatal")
	flags.Var(etcdflags.NewUniqueStringsValue(embed.DefaultLogOutput), "log-outputs", "stdout, stderr or files")
	_ = flags.Parse(args) // it exits by itself

	c.ListenClientUrls = etcdflags.UniqueURLsFromFlag(flags, "listen-client-urls")
	c.AdvertiseClientUrls = etcdflags.UniqueURLsFromFlag(flags, "advertise-client-urls")
	c.ListenPeerUrls = etcdflags.UniqueURLsFromFlag(flags, "listen-peer-urls")
	c.AdvertisePeerUrls = etcdflags.UniqueURLsFromFlag(flags, "initial-advertise-peer-urls")
	c.ListenMetricsUrls = etcdflags.UniqueURLsFromFlag(flags, "listen-metrics-urls")
	c.LogOutputs = etcdflags.UniqueStringsFromFlag(flags, "log-outputs")
	return c
}
