package plan_test

import (
	"context"
	"crypto/rand"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
	"github.com/pintle-go/pintle/plan"
)

// A Shop has a Deployment for each of its counters. The Service waits for all of them.
func ExampleEach() {
	children := func(op operator, s *Shop, counters []string) *plan.Plan {
		p := plan.New(op.shops, s, &s.Status.Status)
		all := plan.Each(p, "counter", counters, op.deployments, func(_ plan.Inputs, key string) (*appsv1.Deployment, error) {
			about := metav1.ObjectMeta{Name: s.Name + "-" + key, Labels: map[string]string{"shop": s.Name, "counter": key}}
			return &appsv1.Deployment{ObjectMeta: about, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: about.Labels},
				Template: pod(about, s.Spec.Image, corev1.RestartPolicyAlways, "counter="+key),
			}}, nil
		})
		plan.Object(p, "address", op.services, func(plan.Inputs) (*corev1.Service, error) {
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Spec: corev1.ServiceSpec{
				Selector: map[string]string{"shop": s.Name}, Ports: []corev1.ServicePort{{Port: 80}},
			}}, nil
		}).Needs(all)
		return p
	}
	_ = children
}

// The certificate of a Shop is somebody else's Secret. Until it exists, the application
// waits for it. The controller watches it: a renewed certificate restarts the pods at once.
func ExampleLookup() {
	certificate := func(s *Shop) kube.Key { return kube.Key{Namespace: s.Namespace, Name: s.Name + "-tls"} }
	children := func(op operator, s *Shop) *plan.Plan {
		p := plan.New(op.shops, s, &s.Status.Status)
		found := plan.Lookup(p, "certificate", op.secrets, certificate(s))
		plan.Object(p, "app", op.deployments, func(in plan.Inputs) (*appsv1.Deployment, error) {
			about := metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{"shop": s.Name}}
			version := "certificate=" + found.From(in).ResourceVersion // a change of it restarts the pods
			return &appsv1.Deployment{ObjectMeta: about, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: about.Labels},
				Template: pod(about, s.Spec.Image, corev1.RestartPolicyAlways, version),
			}}, nil
		}).Needs(found)
		return p
	}
	shops := func(op operator) controller.Controller[Shop] {
		certificates := func(s *Shop) []kube.Key { return []kube.Key{certificate(s)} }
		return controller.Controller[Shop]{
			For:     op.shops,
			Owns:    []kube.AnyHandle{op.deployments},
			Watches: []controller.Source{controller.Referenced(op.secrets, certificates)},
			Reconcile: func(ctx context.Context, s *Shop) (controller.Action, error) {
				return children(op, s).Run(ctx)
			},
		}
	}
	_ = shops
}

// The password is made once. It stays while the Secret exists, although each reconcile
// makes another one.
func ExampleOnce() {
	children := func(op operator, s *Shop) *plan.Plan {
		p := plan.New(op.shops, s, &s.Status.Status)
		plan.Once(p, "password", op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
			about := metav1.ObjectMeta{Name: s.Name + "-password"}
			return &corev1.Secret{ObjectMeta: about, StringData: map[string]string{"password": rand.Text()}}, nil
		}).Retain()
		return p
	}
	_ = children
}

// A Job whose template has changed is recreated by default. This one runs for hours, so a
// person decides: the node fails and says which field has changed.
func ExampleNode_OnImmutable() {
	children := func(op operator, s *Shop) *plan.Plan {
		p := plan.New(op.shops, s, &s.Status.Status)
		plan.Object(p, "import", op.jobs, func(plan.Inputs) (*batchv1.Job, error) {
			about := metav1.ObjectMeta{Name: s.Name + "-import"}
			template := pod(about, s.Spec.Image, corev1.RestartPolicyNever, "import")
			return &batchv1.Job{ObjectMeta: about, Spec: batchv1.JobSpec{Template: template}}, nil
		}).OnImmutable(plan.Report)
		return p
	}
	_ = children
}

// An Instance is a database of a cloud, which chooses its id.
type Instance struct {
	ID   string
	Size int64
}

// cloud is the API of a cloud. An instance has the token that it was made with as its tag.
type cloud interface {
	Tagged(ctx context.Context, token string) (*Instance, error) // nil: there is none
	Make(ctx context.Context, token string, size int64) (*Instance, error)
	Resize(ctx context.Context, id string, size int64) error
	Remove(ctx context.Context, id string) error
}

// The cloud cannot find an instance by a name. So the instance is found by the token of its
// Ref, which is recorded before the instance is made. The id is its outcome: it is recorded
// before another node uses it.
func ExampleThings() {
	var api cloud
	instances := &plan.Things[Instance]{
		Kind: "Instance",
		Observe: func(ctx context.Context, r plan.Ref) (*Instance, error) {
			if r.Token == "" {
				return nil, nil // it was never made
			}
			return api.Tagged(ctx, r.Token)
		},
		Create: func(ctx context.Context, r plan.Ref, want *Instance) (*Instance, error) {
			return api.Make(ctx, r.Token, want.Size)
		},
		Differs: func(is, want *Instance) bool { return is.Size != want.Size },
		Update: func(ctx context.Context, r plan.Ref, _, want *Instance) (*Instance, error) {
			id := r.Outcome["id"]
			return &Instance{ID: id, Size: want.Size}, api.Resize(ctx, id, want.Size)
		},
		Delete: func(ctx context.Context, r plan.Ref) error {
			is, err := api.Tagged(ctx, r.Token) // without an answer to Make there is no outcome
			if err != nil || is == nil {
				return err
			}
			return api.Remove(ctx, is.ID)
		},
		Outcome: func(is *Instance) map[string]string { return map[string]string{"id": is.ID} },
	}
	children := func(op operator, s *Shop) *plan.Plan {
		p := plan.New(op.shops, s, &s.Status.Status)
		database := plan.Step(p, "database", instances, func(plan.Inputs) (*Instance, error) {
			return &Instance{Size: 10 << 30}, nil
		})
		plan.Object(p, "settings", op.secrets, func(in plan.Inputs) (*corev1.Secret, error) {
			about := metav1.ObjectMeta{Name: s.Name + "-settings"}
			return &corev1.Secret{ObjectMeta: about, StringData: database.Outcome(in)}, nil
		}).Needs(database)
		return p
	}
	_ = children
}

// A program has one Monitor for the plans of all owners.
func ExampleMonitor() {
	ctx, stop := controller.Signals()
	defer stop()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	op := operator{shops: kube.For[Shop](client), services: kube.For[corev1.Service](client)}
	events, shown := &event.Recorder{Controller: "example.com/shop-operator"}, metrics.New()
	monitor := plan.NewMonitor(events, shown)
	err = controller.Run(ctx, controller.Options{Address: ":8080", Events: events, Metrics: shown}, controller.Controller[Shop]{
		For:  op.shops,
		Owns: []kube.AnyHandle{op.services},
		Reconcile: func(ctx context.Context, s *Shop) (controller.Action, error) {
			p := plan.New(op.shops, s, &s.Status.Status)
			p.Monitor = monitor
			plan.Object(p, "address", op.services, func(plan.Inputs) (*corev1.Service, error) {
				spec := corev1.ServiceSpec{Selector: map[string]string{"shop": s.Name}, Ports: []corev1.ServicePort{{Port: 80}}}
				return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Spec: spec}, nil
			})
			return p.Run(ctx)
		},
		Gone: func(_ context.Context, s *Shop) error {
			monitor.Forget(s)
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}
