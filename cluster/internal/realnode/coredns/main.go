// Command coredns is the cluster's DNS server: CoreDNS with only the plugins that the
// real node's Corefile names.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/coredns/caddy"
	_ "github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "coredns:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: coredns COREFILE")
	}
	corefile, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	log.SetFlags(0)
	caddy.Quiet = true
	caddy.TrapSignals()

	server, err := caddy.Start(caddy.CaddyfileInput{Filepath: os.Args[1], Contents: corefile, ServerTypeName: "dns"})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	server.Wait()
	return nil
}
