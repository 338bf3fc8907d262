package database

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/place"
	"github.com/pintle-go/pintle/plan"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// services returns the names of the Services that the children of a NeonDatabase have.
func services(base string) []string {
	names := []string{base, place.ComputeName(base)}
	for _, part := range []string{
		"broker", "controller", "database", "store", "safekeeper", "safekeeper-1", "safekeeper-12", "pageserver", "pageserver-3",
	} {
		names = append(names, base+"-"+part)
	}
	return names
}

// TestNamesNeverCollide names pairs of NeonDatabases by all that their children's names are made
// of.
func TestNamesNeverCollide(t *testing.T) {
	t.Parallel()
	valid := regexp.MustCompile(`^[a-z][-a-z0-9]{0,29}$`)
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{
			"a", "orders", "controller", "compute", "store", "database", "broker", "safekeeper", "safekeeper-1",
			"pageserver-3", "main", "app", "0", "abcdef01",
		})
		name := rapid.Custom(func(t *rapid.T) *api.NeonDatabase {
			d := new(api.NeonDatabase)
			d.Name = strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "parts"), "-")
			if rapid.Bool().Draw(t, "as another's base") {
				d.Name = baseName(d)
			}
			return d
		}).Filter(func(d *api.NeonDatabase) bool { return valid.MatchString(d.Name) })
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		if rapid.Bool().Draw(t, "as a child of the other") {
			b.Name = rapid.SampledFrom(services(rapid.SampledFrom([]string{a.Name, baseName(a)}).Draw(t, "of"))).Draw(t, "child")
		}
		if a.Name == b.Name || !valid.MatchString(b.Name) {
			return
		}
		for _, d := range []*api.NeonDatabase{a, b} {
			if !valid.MatchString(baseName(d)) {
				t.Fatalf("the base of %s is %s", d.Name, baseName(d))
			}
		}
		for _, s := range services(baseName(a)) {
			if slices.Contains(services(baseName(b)), s) {
				t.Fatalf("%s and %s both have Service %s", a.Name, b.Name, s)
			}
		}
	})
}

// TestNamesakes makes NeonDatabases in two namespaces, with names that would collide, on a real API
// server. Another part makes their children ready.
func TestNamesakes(t *testing.T) {
	t.Parallel()
	of := kubetest.Start(t, kubetest.Options{})
	client := install(t, of)
	names := []string{"orders", "orders-controller", "orders-compute", "orders-safekeeper-1"}
	d := new(api.NeonDatabase)
	d.Name = "orders-controller"
	names = append(names, baseName(d))
	for i := range 2 {
		t.Run(fmt.Sprintf("namespace-%d", i), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			namesakes(ctx, t, client, of.Namespace(t), names)
		})
	}
}

// install returns a client of a cluster that has the definitions.
func install(t *testing.T, of *kubetest.Cluster) *kube.Client {
	t.Helper()
	client := optest.Client(t, of.Config())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := crd.Install(ctx, client, api.Definitions...); err != nil {
		t.Fatal(err)
	}
	return client
}

func namesakes(ctx context.Context, t *testing.T, client *kube.Client, ns string, names []string) {
	t.Helper()
	op := operator(client, ns)
	defer run(ctx, t, op)()
	for _, name := range names {
		d := new(api.NeonDatabase)
		d.Name, d.Spec.ComputeImageRef, d.Spec.NeonImageRef = name, "compute:test", "neon:test"
		d.Spec.PostgresVersion, d.Spec.DeletionPolicy = "17", api.Delete
		if _, err := op.NeonDatabases.Create(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]string{}
	for _, name := range names {
		d, err := op.NeonDatabases.Until(ctx, name, func(d *api.NeonDatabase) bool {
			return slices.ContainsFunc(d.Status.Nodes, func(n plan.NodeStatus) bool { return n.Name == "endpoint" && n.State == "Ready" })
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, n := range d.Status.Nodes {
			if n.State == "Failed" {
				t.Errorf("%s: %s: %s", name, n.Name, n.Message)
			}
			if n.Name != "cluster" && n.Name != "endpoint" {
				continue
			}
			all := []string{n.ObjectName, place.ComputeName(n.ObjectName)}
			if n.Name == "cluster" {
				all = services(n.ObjectName)[2:]
			}
			for _, s := range all {
				if other := seen[s]; other != "" {
					t.Errorf("%s and %s both have Service %s", name, other, s)
				}
				seen[s] = name
			}
		}
	}
}

// operator returns an operator of a namespace.
func operator(client *kube.Client, ns string) *Operator {
	return &Operator{
		NeonDatabases: kube.For[api.NeonDatabase](client).In(ns), Clusters: kube.For[api.NeonCluster](client).In(ns),
		Projects: kube.For[api.NeonProject](client).In(ns), Branches: kube.For[api.NeonBranch](client).In(ns),
		Roles: kube.For[api.NeonRole](client).In(ns), Databases: kube.For[api.NeonBranchDatabase](client).In(ns),
		Endpoints: kube.For[api.NeonEndpoint](client).In(ns), Secrets: kube.For[corev1.Secret](client).In(ns),
	}
}

// run runs an operator, and makes the objects ready that it creates. It returns the function that stops
// it.
func run(ctx context.Context, t *testing.T, op *Operator) (stop func()) {
	t.Helper()
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		ended <- controller.Run(running, controller.Options{Logger: slog.New(slog.DiscardHandler)}, op.Controller(),
			ready(op.Clusters, func(c *api.NeonCluster) (*[]metav1.Condition, *int64) {
				return &c.Status.Conditions, &c.Status.ObservedGeneration
			}),
			ready(op.Projects, func(p *api.NeonProject) (*[]metav1.Condition, *int64) {
				return &p.Status.Conditions, &p.Status.ObservedGeneration
			}),
			ready(op.Branches, func(b *api.NeonBranch) (*[]metav1.Condition, *int64) {
				return &b.Status.Conditions, &b.Status.ObservedGeneration
			}),
			ready(op.Roles, func(r *api.NeonRole) (*[]metav1.Condition, *int64) {
				return &r.Status.Conditions.Conditions, &r.Status.ObservedGeneration
			}),
			ready(op.Databases, func(d *api.NeonBranchDatabase) (*[]metav1.Condition, *int64) {
				return &d.Status.Conditions.Conditions, &d.Status.ObservedGeneration
			}),
			ready(op.Endpoints, func(e *api.NeonEndpoint) (*[]metav1.Condition, *int64) {
				return &e.Status.Conditions, &e.Status.ObservedGeneration
			}))
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// ready is a controller that makes objects ready.
func ready[T any, P interface {
	*T
	metav1.Object
}](objects kube.Resource[T], status func(*T) (*[]metav1.Condition, *int64)) controller.Controller[T] {
	return controller.Controller[T]{
		For: objects, Name: "ready-" + strings.ToLower(objects.Kind().Kind),
		Reconcile: func(ctx context.Context, o *T) (controller.Action, error) {
			conditions, generation := status(o)
			controller.SetCondition(P(o), conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"})
			*generation = P(o).GetGeneration()
			return controller.Done, objects.Status().Ensure(ctx, o)
		},
	}
}
