package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/clap"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/pageserver"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

func runPageserver(ctx context.Context, args []string, _ io.Writer) error {
	f := clap.New("pageserver")
	var dir string
	for _, name := range []string{"D", "workdir"} {
		f.StringVar(&dir, name, ".neon", "")
	}
	f.Switches("enabled-features")
	if err := f.Parse(args); err != nil {
		return err
	}
	p, err := pageserver.Open(dir)
	if err != nil {
		return err
	}
	p.Log = newLog()
	for _, key := range p.Ignored {
		p.Log.Warn("ignoring unknown configuration item", "path", key)
	}
	p.Token = os.Getenv("NEON_AUTH_TOKEN")
	if p.HTTP, err = wire.ClientTrusting(inDir(dir, p.CA)); err != nil {
		return err
	}
	var on pageserver.Listeners
	for _, address := range []string{p.ListenHTTP, p.ListenPG} {
		listener, err := listen(address)
		if err != nil {
			return err
		}
		if address == p.ListenPG {
			if p.PagesByTLS {
				config, err := wire.ServerTLS(inDir(dir, p.Certificate), inDir(dir, p.Key))
				if err != nil {
					return err
				}
				listener = wire.ListenPostgres(listener, config)
			}
			on.PG = append(on.PG, listener)
			continue
		}
		on.HTTP = append(on.HTTP, listener)
	}
	if p.ListenHTTPS != "" {
		listener, err := wire.ListenTLS(p.ListenHTTPS, inDir(dir, p.Certificate), inDir(dir, p.Key))
		if err != nil {
			return err
		}
		on.HTTP = append(on.HTTP, listener)
	}
	if err := admin(ctx, &p.Faults); err != nil {
		return err
	}
	return p.Run(ctx, on)
}

// inDir returns a path in a directory, unless the path is absolute or empty.
func inDir(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
