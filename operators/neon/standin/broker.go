package main

import (
	"context"
	"io"
	"net"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/broker"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/clap"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

func runBroker(ctx context.Context, args []string, _ io.Writer) error {
	f := clap.New("storage_broker")
	var address, byTLS, key, certificate string
	for _, name := range []string{"l", "listen-addr"} {
		f.StringVar(&address, name, "", "")
	}
	f.StringVar(&byTLS, "listen-https-addr", "", "")
	f.StringVar(&key, "ssl-key-file", "server.key", "")
	f.StringVar(&certificate, "ssl-cert-file", "server.crt", "")
	f.Ignored("timeline-chan-size", "all-keys-chan-size", "http2-keepalive-interval", "log-format", "ssl-cert-reload-period")
	if err := f.Parse(args); err != nil {
		return err
	}
	if address == "" && byTLS == "" {
		return clap.Errorf("the following required arguments were not provided: --listen-addr, or --listen-https-addr")
	}
	var listeners []net.Listener
	if address != "" {
		listener, err := listen(address)
		if err != nil {
			return err
		}
		listeners = append(listeners, listener)
	}
	if byTLS != "" {
		secure, err := wire.ListenTLS(byTLS, certificate, key)
		if err != nil {
			return err
		}
		listeners = append(listeners, secure)
	}
	b := &broker.Broker{Log: newLog()}
	if err := admin(ctx, &b.Faults); err != nil {
		return err
	}
	return b.Run(ctx, listeners...)
}
