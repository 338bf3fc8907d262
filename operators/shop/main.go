// Command shop runs shops. A Shop has a database, an application that waits for it, and
// accounts at a payment service outside the cluster.
//
//	go run ./operators/shop/payments &                                         # a stand-in for the payment service
//	go run ./operators/shop                                                    # against the kubeconfig's cluster
//	go run ./operators/shop manifests | kubectl apply --server-side -f -       # in it
//
// It shows how the children of an object are described by package plan, with every kind of
// node. The README.md beside this file explains it. account.go has the accounts.
package main

import (
	"context"
	"crypto/rand"
	"embed"
	"flag"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
	"github.com/pintle-go/pintle/metrics"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/plan/page"
	"github.com/pintle-go/pintle/program"
	"github.com/pintle-go/pintle/ready"
)

// A Shop is an application with a database and with accounts at a payment service.
type Shop struct {
	kube.Object
	Spec struct {
		// Image of the application. It migrates the database if its argument is "migrate".
		Image string `json:"image" crd:"minLength=1,column"`
		// Number of the application's pods.
		Replicas int32 `json:"replicas" crd:"min=0,default=1"`
		// Size of the database's volume. It can grow if the StorageClass allows that.
		Storage resource.Quantity `json:"storage" crd:"default=1Gi"`
		// Regions to sell in.
		Regions []string `json:"regions,omitempty" crd:"listType=set,items.pattern='^[a-z][-a-z0-9]{0,19}$'"`
		// Limit is the highest payment.
		Limit int64 `json:"limit" crd:"min=1,default=1000"`
		// Gifts says that the shop wraps gifts.
		Gifts bool `json:"gifts,omitempty"`
		// Settings names a ConfigMap with a greeting. The application waits for it.
		Settings string `json:"settings,omitempty"`
	} `json:"spec"`
	Status struct {
		plan.Status `json:",inline"`
		// Serving is the number of pods that serve customers.
		Serving int32 `json:"serving" crd:"column"`
	} `json:"status,omitzero"`
	_ struct{} `crd:"rule='self.metadata.name.matches(\"^[a-z][-a-z0-9]{0,29}$\")',message='too long, or not a name'"`
}

// GVK returns the kind.
func (Shop) GVK() kube.GVK { return kube.GVK{Group: "shop.example.com", Version: "v1", Kind: "Shop"} }

type operator struct {
	shops        kube.Resource[Shop]
	secrets      kube.Resource[corev1.Secret]
	services     kube.Resource[corev1.Service]
	configMaps   kube.Resource[corev1.ConfigMap]
	statefulSets kube.Resource[appsv1.StatefulSet]
	jobs         kube.Resource[batchv1.Job]
	deployments  kube.Resource[appsv1.Deployment]
	accounts     *plan.Things[Account]
	monitor      *plan.Monitor
}

func (op operator) reconcile(ctx context.Context, s *Shop) (controller.Action, error) {
	return op.children(s).Run(ctx)
}

func (op operator) cleanup(ctx context.Context, s *Shop) (controller.Action, error) {
	return op.children(s).Delete(ctx)
}

// children describes the children of a Shop. It is called for each reconcile.
func (op operator) children(s *Shop) *plan.Plan {
	p := plan.New(op.shops, s, &s.Status.Status)
	p.Monitor = op.monitor

	password := plan.Once(p, "password", op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
		value := map[string][]byte{"password": []byte(rand.Text())} // is used if there is no Secret
		return &corev1.Secret{ObjectMeta: s.about("-db"), Data: value}, nil
	}).Retain()

	address := plan.Object(p, "address", op.services, func(plan.Inputs) (*corev1.Service, error) {
		return service(s.about("-db"), 5432), nil
	})

	database := plan.Object(p, "database", op.statefulSets, func(in plan.Inputs) (*appsv1.StatefulSet, error) {
		secret := password.From(in).Name
		env := []corev1.EnvVar{secretEnv("POSTGRES_PASSWORD", secret, "password")}
		return statefulSet(s.about("-db"), address.From(in).Name, env, s.Spec.Storage), nil
	}).Needs(password, address).Within(5 * time.Minute).UntilGone().OnImmutable(plan.Orphan)

	migrate := plan.Object(p, "migrate", op.jobs, func(in plan.Inputs) (*batchv1.Job, error) {
		template := pod(s.about("-migrate"), s.Spec.Image, s.access(address.From(in), password.From(in)), "migrate")
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		return &batchv1.Job{ObjectMeta: s.about("-migrate"), Spec: batchv1.JobSpec{Template: template}}, nil
	}).Needs(database, address, password)

	account := plan.Step(p, "account", op.accounts, func(plan.Inputs) (*Account, error) {
		return &Account{Name: string(s.UID), Limit: s.Spec.Limit}, nil
	}).UntilGone()

	tills := plan.EachStep(p, "till", s.Spec.Regions, op.accounts,
		func(_ plan.Inputs, region string) (*Account, error) {
			return &Account{Name: string(s.UID) + "-" + region, Limit: s.Spec.Limit}, nil
		})

	regions := plan.Each(p, "region", s.Spec.Regions, op.configMaps,
		func(in plan.Inputs, region string) (*corev1.ConfigMap, error) {
			data := map[string]string{"account": tills.Key(region).From(in).Name}
			return &corev1.ConfigMap{ObjectMeta: s.about("-region-" + region), Data: data}, nil
		}).Do(func(region string, n *plan.Node[corev1.ConfigMap]) { n.Needs(tills.Key(region)) })

	var settings *plan.Node[corev1.ConfigMap]
	if s.Spec.Settings != "" {
		settings = plan.Lookup(p, "settings", op.configMaps, kube.Key{Name: s.Spec.Settings}).ReadyWhen(hasGreeting)
	}

	app := plan.Object(p, "app", op.deployments, func(in plan.Inputs) (*appsv1.Deployment, error) {
		key := secretEnv("PAYMENT_KEY", account.OutcomeSecret(in), "key")
		env := append(s.access(address.From(in), password.From(in)), key)
		if settings != nil {
			env = append(env, corev1.EnvVar{Name: "GREETING", Value: settings.From(in).Data["greeting"]})
		}
		var names []string
		for _, region := range regions.From(in) {
			names = append(names, region.Name)
		}
		env = append(env, corev1.EnvVar{Name: "REGIONS", Value: strings.Join(names, ",")})
		return deployment(s.about(""), s.Spec.Replicas, pod(s.about(""), s.Spec.Image, env, "serve")), nil
	}).Needs(migrate, address, password, account, regions)
	if settings != nil {
		app.Needs(settings)
	}

	front := plan.Object(p, "front", op.services, func(plan.Inputs) (*corev1.Service, error) {
		return service(s.about(""), 80), nil
	})

	plan.Object(p, "gifts", op.deployments, func(in plan.Inputs) (*appsv1.Deployment, error) {
		env := []corev1.EnvVar{{Name: "SHOP", Value: front.From(in).Name}}
		return deployment(s.about("-gifts"), 1, pod(s.about("-gifts"), s.Spec.Image, env, "gifts")), nil
	}).Needs(app, front).When(func(plan.Inputs) bool { return s.Spec.Gifts })

	p.Report = func() {
		if d := app.Last(); d != nil {
			s.Status.Serving = d.Status.AvailableReplicas
		}
	}
	return p
}

// hasGreeting is the rule by which settings are ready.
func hasGreeting(m *corev1.ConfigMap) ready.State {
	if m.Data["greeting"] == "" {
		return ready.State{Phase: ready.Waiting, Message: "it has no greeting"}
	}
	return ready.State{Phase: ready.Ready}
}

//go:embed main.go
var source embed.FS

var definition = crd.Of[Shop](crd.Options{Source: source})

var (
	serviceURL = flag.String("payments", "http://127.0.0.1:8090", "`URL` of the payment service")
	showPlans  = flag.Bool("page", false, "show the plans in a browser below /plans/, to users who may get /plans/data")
	openPlans  = flag.Bool("open", false, "with -page, show the plans to everybody who reaches the port")
)

func main() { program.Main(describe) }

// describe returns the operator: its controller, and the rights that it needs.
func describe(client *kube.Client) (program.Operator, error) {
	shown, events := metrics.New(), &event.Recorder{Controller: "shop.example.com/shop-operator"}
	client.OnRequest(shown.Observe)
	op := operator{
		shops: kube.For[Shop](client), secrets: kube.For[corev1.Secret](client),
		services: kube.For[corev1.Service](client), configMaps: kube.For[corev1.ConfigMap](client),
		statefulSets: kube.For[appsv1.StatefulSet](client), jobs: kube.For[batchv1.Job](client),
		deployments: kube.For[appsv1.Deployment](client), monitor: plan.NewMonitor(events, shown),
	}
	op.accounts = accounts(*serviceURL, op.secrets)
	settings := func(s *Shop) []kube.Key {
		return []kube.Key{{Namespace: s.Namespace, Name: s.Spec.Settings}}
	}
	owned := []kube.AnyHandle{op.secrets, op.services, op.configMaps, op.statefulSets, op.jobs, op.deployments}
	shops := controller.Controller[Shop]{
		For:  op.shops,
		Owns: owned,
		Watches: []controller.Source{
			plan.Marked(op.shops, op.secrets), controller.Referenced(op.configMaps, settings),
		},
		Reconcile: op.reconcile,
		Cleanup:   op.cleanup,
	}
	args, options := []string{"-payments=" + *serviceURL}, controller.Options{
		Lease: lease.Lease{Name: "shop-operator"}, Events: events, Metrics: shown,
	}
	if *showPlans {
		plans := page.New(op.shops, func(s *Shop) *plan.Status { return &s.Status.Status })
		plans.Open = *openPlans
		shops.Reconcile, shops.Cleanup = plans.Remember(op.reconcile), plans.Remember(op.cleanup)
		args, options.Routes = append(args, "-page"), plans.Routes("/plans/")
	}
	return program.Operator{
		Name:        "shop-operator",
		Image:       "ghcr.io/pintle-go/shop:v0.1.0",
		Controllers: []controller.Any{shops},
		Definitions: []*crd.Definition{definition},
		Options:     options,
		Needs:       []manifest.Rules{manifest.Keeps(owned...)},
		Install:     manifest.Install{Args: args},
	}, nil
}
