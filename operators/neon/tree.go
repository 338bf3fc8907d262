package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// runTree is the command tree: it follows the plan of one object until Ctrl-C.
//
//	neon tree [-namespace NAME] [-kubeconfig FILE] [KIND/]NAME
//
// KIND is database, which is the default, cluster, project, branch or endpoint.
func runTree(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("tree", flag.ContinueOnError)
	namespace := flags.String("namespace", "", "`name` of the namespace; default: that of the kubeconfig's context")
	kubeconfig := flags.String("kubeconfig", "", "`file`; default: as for kubectl")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("name one object: tree [KIND/]NAME")
	}
	client, err := kube.Config{Kubeconfig: *kubeconfig, FieldManager: "neon-tree"}.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	if *namespace == "" {
		*namespace = client.Namespace()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return follow(ctx, out, client, *namespace, flags.Arg(0))
}

// follow follows the plan of an object, named as KIND/NAME or by the name of a NeonDatabase.
func follow(ctx context.Context, out io.Writer, client *kube.Client, namespace, object string) error {
	kind, name, ok := strings.Cut(object, "/")
	if !ok {
		kind, name = "database", object
	}
	switch kind {
	case "database":
		return plan.Follow(ctx, out, kube.For[api.NeonDatabase](client).In(namespace), name,
			func(d *api.NeonDatabase) *plan.Status { return &d.Status.Status })
	case "cluster":
		return plan.Follow(ctx, out, kube.For[api.NeonCluster](client).In(namespace), name,
			func(c *api.NeonCluster) *plan.Status { return &c.Status.Status })
	case "project":
		return plan.Follow(ctx, out, kube.For[api.NeonProject](client).In(namespace), name,
			func(p *api.NeonProject) *plan.Status { return &p.Status.Status })
	case "branch":
		return plan.Follow(ctx, out, kube.For[api.NeonBranch](client).In(namespace), name,
			func(b *api.NeonBranch) *plan.Status { return &b.Status.Status })
	case "endpoint":
		return plan.Follow(ctx, out, kube.For[api.NeonEndpoint](client).In(namespace), name,
			func(e *api.NeonEndpoint) *plan.Status { return &e.Status.Status })
	}
	return fmt.Errorf("show the plan of %q: want a database, cluster, project, branch or endpoint", object)
}
