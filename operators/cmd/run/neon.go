package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/local"
	"github.com/pintle-go/pintle/operators/internal/podrun"
	"github.com/pintle-go/pintle/operators/internal/program"
	"github.com/pintle-go/pintle/operators/internal/standins"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// neonPlace has the addresses of the Neon operator.
type neonPlace struct {
	hooks, proxy, hosts string
}

// makeNeonDir makes the directory of the pods' files. Its name begins as that of this command's
// own, so that a later run removes what a killed one has left.
func makeNeonDir() (string, error) {
	dir, err := local.MakeDir(dirPrefix)
	if err != nil {
		return "", err
	}
	return dir, standins.Share(dir)
}

func newNeonPlace(dir string) (neonPlace, error) {
	at := neonPlace{hosts: podrun.HostsFile(dir)}
	for _, address := range []*string{&at.hooks, &at.proxy} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return at, fmt.Errorf("find a free port: %w", err)
		}
		*address = l.Addr().String()
		if err := l.Close(); err != nil {
			return at, fmt.Errorf("find a free port: %w", err)
		}
	}
	return at, nil
}

func (p neonPlace) proxyHost() string { host, _, _ := net.SplitHostPort(p.proxy); return host }
func (p neonPlace) proxyPort() string { _, port, _ := net.SplitHostPort(p.proxy); return port }

func (p neonPlace) args() []string {
	return []string{"-addr=" + p.hooks, "-hooks=http://" + p.hooks, "-hosts=" + p.hosts, "-proxy=" + p.proxy, "-page", "-open"}
}

// neonMissing says why the Neon operator cannot be shown on this machine.
func neonMissing(settings) error {
	if os.Getenv("NEON_IMAGE_REF") != "" || os.Getenv("COMPUTE_IMAGE_REF") != "" {
		return errors.New("NEON_IMAGE_REF and COMPUTE_IMAGE_REF name images, which simulated nodes cannot run; " +
			"make neon-e2e runs them on a real node")
	}
	_, err := standins.Find()
	return err
}

// showNeon makes a NeonDatabase whose pods are processes of this machine, draws its plan until it
// is ready, and asks the database through its connection Secret.
func (s settings) showNeon(ctx context.Context, c *local.Cluster, ops running) error {
	neon := ops["neon"]
	if neon == nil {
		return errNotHere
	}
	s.Out.Say("a NeonDatabase. Its pods are on simulated nodes, and STAND-INS for Neon's programs run in their place,")
	s.Out.Say("with the PostgreSQL of this machine: no program of Neon is here. make neon-e2e runs Neon's own images.")
	if err := s.runPods(ctx, c); err != nil {
		return err
	}
	if _, err := neon.Await(ctx, "controller runs", "controller=neondatabase"); err != nil {
		return err
	}
	objects, err := install.Read(operators.Files, "neon/volumes.yaml", "neon/sample.yaml")
	if err != nil {
		return err
	}
	if err := install.Apply(ctx, c.Client, c.Namespace, objects...); err != nil {
		return err
	}
	begun := time.Now()
	if err := s.followNeon(ctx, c); err != nil {
		return err
	}
	s.Out.Say("the NeonDatabase orders is ready after %s", time.Since(begun).Round(100*time.Millisecond))
	login, err := kube.For[corev1.Secret](c.Client).In(c.Namespace).Get(ctx, "orders-connection")
	if err != nil {
		return err
	}
	through := fmt.Sprintf("options=endpoint=orders.%s sslmode=require host=%s port=%s", c.Namespace, s.neon.proxyHost(), s.neon.proxyPort())
	if err := answers(ctx, login, through); err != nil {
		return err
	}
	uri := strings.ReplaceAll(string(login.Data["uri"]), string(login.Data["password"]), "PASSWORD")
	s.Out.Say("it answers. Its connection string, in the Secret orders-connection: %s", uri)
	s.Out.Say("from this machine, through the operator's proxy: psql \"user=%s dbname=%s %s\"",
		login.Data["username"], login.Data["dbname"], through)
	return nil
}

// runPods runs the pods of the Neon operator until the command ends.
func (s settings) runPods(ctx context.Context, c *local.Cluster) error {
	postgres, err := standins.Find()
	if err != nil {
		return err
	}
	cache, err := program.CacheDir()
	if err != nil {
		return err
	}
	store, err := program.Install(ctx, program.ObjectStore)
	if err != nil {
		return err
	}
	programs := standins.Programs{StandIn: filepath.Join(cache, filepath.Base(standins.Package)), Store: store}
	runner, err := standins.New(c.Client, c.Namespace, s.neonDir, postgres, programs, nil)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan error, 1)
	go func() { over <- runner.Run(running) }()
	s.Undo.Add("stop the stand-ins for Neon's programs", func(context.Context) error {
		cancel()
		return <-over
	})
	return nil
}

// followNeon draws the plan of the NeonDatabase until it is ready.
func (s settings) followNeon(ctx context.Context, c *local.Cluster) error {
	databases := kube.For[api.NeonDatabase](c.Client).In(c.Namespace)
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan error, 1)
	go func() {
		defer cancel()
		_, err := databases.Until(following, "orders", func(d *api.NeonDatabase) bool {
			return meta.IsStatusConditionTrue(d.Status.Conditions, "Ready")
		})
		over <- err
	}()
	err := s.Out.Draw(func(w io.Writer) error {
		return plan.Follow(following, w, databases, "orders", func(d *api.NeonDatabase) *plan.Status { return &d.Status.Status })
	})
	cancel()
	if err != nil {
		return errors.Join(err, <-over)
	}
	return <-over
}

// answers asks the database through the proxy.
func answers(ctx context.Context, login *corev1.Secret, through string) error {
	config, err := pgx.ParseConfig(fmt.Sprintf("user=%s dbname=%s password=%s %s",
		login.Data["username"], login.Data["dbname"], login.Data["password"], through))
	if err != nil {
		return fmt.Errorf("read the connection string: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	var n int
	err = conn.QueryRow(ctx, "select 1").Scan(&n)
	return errors.Join(err, conn.Close(ctx))
}
