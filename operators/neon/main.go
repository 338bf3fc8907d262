// Command neon runs serverless Postgres: Neon's storage, and computes on it that are suspended
// while nobody uses them. A NeonDatabase is the one-resource way to a database.
//
//	go run ./operators/neon manifests | kubectl apply --server-side -f -
//	kubectl apply -f operators/neon/sample.yaml
//
// The README.md beside this file explains it. Package api has the kinds, and each package in
// internal reconciles one of them.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/metrics"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/branch"
	"github.com/pintle-go/pintle/operators/neon/internal/certmanager"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/database"
	"github.com/pintle-go/pintle/operators/neon/internal/endpoint"
	"github.com/pintle-go/pintle/operators/neon/internal/hook"
	"github.com/pintle-go/pintle/operators/neon/internal/policy"
	"github.com/pintle-go/pintle/operators/neon/internal/project"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/program"
)

// name is that of the operator's Deployment and Service, and is in the labels of its pods.
const name = "neon-operator"

var (
	hooksURL = flag.String("hooks", "",
		"`URL` at which storage controllers reach this program; default: its Service in its namespace")
	hostsFile = flag.String("hosts", "",
		"`file` of JSON with the addresses of hosts, for a cluster whose names this machine cannot look up")
	scrapers = flag.String("scrapers", "",
		"`namespaces`, separated by commas, whose pods may read the metrics of clusters with NetworkPolicies")
	showPlans = flag.Bool("page", false,
		"show the plans in a browser below /plans/KIND/, to users who may get /plans/KIND/data")
	openPlans  = flag.Bool("open", false, "with -page, show the plans to everybody who reaches the port")
	monitored  = flag.Bool("monitoring", false, "add monitors, alerts and a dashboard to the manifests")
	useIssuers = flag.Bool("cert-manager", false, "let clusters name issuers of cert-manager, whose definitions must be installed")
	storeImage = flag.String("store-image", "", "`image` of the object store for development")
)

// serviceURL returns the URL of the operator's Service in a namespace. The Service has the
// default port of HTTP.
func serviceURL(namespace string) string { return "http://" + name + "." + namespace + ".svc" }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "tree" {
		if err := runTree(os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "neon:", err)
			os.Exit(1)
		}
		return
	}
	program.Main(describe)
}

// describe returns the operator: its controllers, and the rights that they need.
func describe(client *kube.Client) (program.Operator, error) {
	shown, events := metrics.New(), &event.Recorder{Controller: "neon.pintle.dev/neon-operator"}
	client.OnRequest(shown.Observe)
	monitor := plan.NewMonitor(events, shown)

	databases, clusters := kube.For[api.NeonDatabase](client), kube.For[api.NeonCluster](client)
	projects, branches := kube.For[api.NeonProject](client), kube.For[api.NeonBranch](client)
	endpoints, roles := kube.For[api.NeonEndpoint](client), kube.For[api.NeonRole](client)
	contents := kube.For[api.NeonBranchDatabase](client)
	secrets, services := kube.For[corev1.Secret](client), kube.For[corev1.Service](client)
	sets, deployments := kube.For[appsv1.StatefulSet](client), kube.For[appsv1.Deployment](client)
	pods, closed := kube.For[corev1.Pod](client), kube.For[networkingv1.NetworkPolicy](client)
	budgets, leases := kube.For[policyv1.PodDisruptionBudget](client), kube.For[coordinationv1.Lease](client)

	var issued *kube.Resource[certmanager.Certificate]
	if *useIssuers {
		all := certmanager.All(client)
		issued = &all
	}
	var dial func(ctx context.Context, network, address string) (net.Conn, error)
	transport := cluster.Transport()
	if *hostsFile != "" {
		dial = dialHosts(*hostsFile)
		transport.DialContext = dial
	}
	clients := &cluster.Clients{Secrets: secrets, Clusters: &clusters, HTTP: &http.Client{Transport: transport}}

	fronted, err := newFront(client)
	if err != nil {
		return program.Operator{}, err
	}
	// The operator's own pods have these labels: see its manifests.
	peers := policy.Peers{
		Namespace: client.Namespace(), Labels: program.Operator{Name: name}.Labels(),
		Scrapers: strings.FieldsFunc(*scrapers, func(r rune) bool { return r == ',' }),
	}
	storage := &cluster.Operator{
		Clusters: clusters, Projects: projects, Secrets: secrets, Services: services, StatefulSets: sets,
		Deployments: deployments, Pods: pods, Branches: branches, Policies: closed, Budgets: budgets, Peers: peers,
		Clients: clients, Dial: dial, Monitor: monitor, Hooks: cmp.Or(*hooksURL, serviceURL(client.Namespace())),
		Issued: issued,
	}
	tenants := &project.Operator{
		Projects: projects, Clusters: clusters, Branches: branches, Clients: clients, Monitor: monitor,
	}
	timelines := &branch.Operator{
		Branches: branches, Projects: projects, Endpoints: endpoints, Clients: clients, Monitor: monitor,
	}
	computes := &endpoint.Operator{
		Endpoints: endpoints, Branches: branches, Projects: projects, Clusters: clusters, Roles: roles,
		Databases: contents, Secrets: secrets, Services: services, StatefulSets: sets, Pods: pods,
		Policies: closed, Peers: peers, Leases: leases, Clients: clients, Monitor: monitor, Dial: dial,
		Proxy: fronted.place, Issued: issued,
	}
	whole := &database.Operator{
		NeonDatabases: databases, Clusters: clusters, Projects: projects, Branches: branches, Roles: roles,
		Databases: contents, Endpoints: endpoints, Secrets: secrets, Monitor: monitor,
		StoreImage: *storeImage,
	}
	for _, part := range []interface{ Start() }{storage, tenants, timelines, computes} {
		part.Start()
	}
	fronted.serve(computes, dial)
	hooks := &hook.Hooks{Projects: projects, Branches: branches, Endpoints: endpoints, Secrets: secrets, Clients: clients}

	ofCluster, ofProject, ofBranch := storage.Controller(), tenants.Controller(), timelines.Controller()
	ofEndpoint, ofRole, ofContent := computes.Controller(), computes.RoleController(), computes.DatabaseController()
	ofDatabase := whole.Controller()
	// The kubelet puts the namespace in: a chart is installed into any.
	args, routes := []string{"-hooks=" + cmp.Or(*hooksURL, serviceURL("$(POD_NAMESPACE)"))}, hooks.Routes()
	if *scrapers != "" {
		args = append(args, "-scrapers="+*scrapers)
	}
	if *showPlans {
		args = append(args, "-page")
		routes = slices.Concat(routes,
			pageOf(&ofDatabase, "databases", func(d *api.NeonDatabase) *plan.Status { return &d.Status.Status }),
			pageOf(&ofCluster, "clusters", func(c *api.NeonCluster) *plan.Status { return &c.Status.Status }),
			pageOf(&ofProject, "projects", func(p *api.NeonProject) *plan.Status { return &p.Status.Status }),
			pageOf(&ofBranch, "branches", func(b *api.NeonBranch) *plan.Status { return &b.Status.Status }),
			pageOf(&ofEndpoint, "endpoints", func(e *api.NeonEndpoint) *plan.Status { return &e.Status.Status }))
	}
	o := program.Operator{
		Name:        name,
		Image:       "ghcr.io/pintle-go/neon:v0.1.0",
		Controllers: []controller.Any{ofCluster, ofProject, ofBranch, ofEndpoint, ofRole, ofContent, ofDatabase},
		Definitions: api.Definitions,
		Options: controller.Options{
			Address: ":8080", Lease: lease.Lease{Name: name}, Events: events, Metrics: shown,
			Routes: routes, Runnables: fronted.runnables, Checks: fronted.checks,
		},
		Needs: []manifest.Rules{
			manifest.Keeps(secrets, services, sets, deployments, closed, budgets),
			manifest.Keeps(clusters, projects, branches, endpoints, roles, contents),
			manifest.Patches(projects, endpoints, leases, sets), manifest.Modifies(branches),
			manifest.Gets(pods, sets, leases), manifest.Lists(pods, sets), manifest.Deletes(pods, leases),
			manifest.Watches(leases), manifest.Creates(leases),
		},
		Install: manifest.Install{Args: args, Env: []corev1.EnvVar{podNamespace()}, Objects: fronted.objects},
	}
	if issued != nil {
		o.Install.Args = append(o.Install.Args, "-cert-manager")
		o.Needs = append(o.Needs, manifest.Keeps(*issued))
	}
	o.Needs = append(o.Needs, fronted.needs()...)
	fronted.deploy(&o.Install)
	return o, nil
}

// podNamespace is the variable with the namespace of the operator's pod.
func podNamespace() corev1.EnvVar {
	field := &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}
	return corev1.EnvVar{Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: field}}
}

// dialHosts connects to the hosts in a file, which is read again for each connection: an
// object in JSON, from names to addresses, each with a port or without one.
func dialHosts(file string) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("dial %q: %w", address, err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read hosts: %w", err)
		}
		var hosts map[string]string
		if err := json.Unmarshal(text, &hosts); err != nil {
			return nil, fmt.Errorf("read hosts: %w", err)
		}
		if to, ok := hosts[address]; ok {
			address = to
		} else if to, ok := hosts[host]; ok {
			address = net.JoinHostPort(to, port)
		}
		return dialer.DialContext(ctx, network, address)
	}
}
