package plan_test

import (
	"context"
	"fmt"
	"log"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// A Shop is an application with a database of its own.
type Shop struct {
	kube.Object
	Spec struct {
		Image    string `json:"image"`
		Replicas int32  `json:"replicas"`
	} `json:"spec"`
	Status struct {
		plan.Status `json:",inline"`
		Serving     int32 `json:"serving"`
	} `json:"status,omitzero"`
}

func (Shop) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Shop"} }

type operator struct {
	shops        kube.Resource[Shop]
	secrets      kube.Resource[corev1.Secret]
	services     kube.Resource[corev1.Service]
	jobs         kube.Resource[batchv1.Job]
	statefulSets kube.Resource[appsv1.StatefulSet]
	deployments  kube.Resource[appsv1.Deployment]
}

// children describes the children of a Shop. It is called for each reconcile.
func (op operator) children(s *Shop) *plan.Plan {
	p := plan.New(op.shops, s, &s.Status.Status)
	name := func(suffix string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: s.Name + suffix, Labels: map[string]string{"shop": s.Name + suffix}}
	}
	password := plan.Object(p, "password", op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
		return &corev1.Secret{ObjectMeta: name("-db"), Data: map[string][]byte{"password": []byte(s.UID)}}, nil
	}).Retain()

	address := plan.Object(p, "address", op.services, func(plan.Inputs) (*corev1.Service, error) {
		ports := []corev1.ServicePort{{Port: 5432}}
		spec := corev1.ServiceSpec{Selector: name("-db").Labels, Ports: ports}
		return &corev1.Service{ObjectMeta: name("-db"), Spec: spec}, nil
	})

	database := plan.Object(p, "database", op.statefulSets, func(in plan.Inputs) (*appsv1.StatefulSet, error) {
		return &appsv1.StatefulSet{ObjectMeta: name("-db"), Spec: appsv1.StatefulSetSpec{
			ServiceName: address.From(in).Name,
			Selector:    &metav1.LabelSelector{MatchLabels: name("-db").Labels},
			Template:    pod(name("-db"), "postgres:18", corev1.RestartPolicyAlways, "password="+password.From(in).Name),
		}}, nil
	}).Needs(password, address).Within(5 * time.Minute).UntilGone()

	migrate := plan.Object(p, "migrate", op.jobs, func(in plan.Inputs) (*batchv1.Job, error) {
		url := fmt.Sprintf("url=postgres://%s:5432", address.From(in).Spec.ClusterIP)
		template := pod(name("-migrate"), s.Spec.Image, corev1.RestartPolicyNever, url)
		return &batchv1.Job{ObjectMeta: name("-migrate"), Spec: batchv1.JobSpec{Template: template}}, nil
	}).Needs(database, address)

	app := plan.Object(p, "app", op.deployments, func(in plan.Inputs) (*appsv1.Deployment, error) {
		url := fmt.Sprintf("url=postgres://%s:5432", address.From(in).Spec.ClusterIP)
		return &appsv1.Deployment{ObjectMeta: name(""), Spec: appsv1.DeploymentSpec{
			Replicas: &s.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: name("").Labels},
			Template: pod(name(""), s.Spec.Image, corev1.RestartPolicyAlways, url),
		}}, nil
	}).Needs(migrate, address)

	p.Report = func() {
		if d := app.Last(); d != nil {
			s.Status.Serving = d.Status.AvailableReplicas
		}
	}
	return p
}

func (op operator) reconcile(ctx context.Context, s *Shop) (controller.Action, error) {
	return op.children(s).Run(ctx)
}

func (op operator) cleanup(ctx context.Context, s *Shop) (controller.Action, error) {
	return op.children(s).Delete(ctx)
}

// A Shop's application starts when its database is ready and the migration is complete.
// The deletion of a Shop runs backwards, and leaves the password.
func Example() {
	ctx, stop := controller.Signals()
	defer stop()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	op := operator{
		kube.For[Shop](client), kube.For[corev1.Secret](client), kube.For[corev1.Service](client),
		kube.For[batchv1.Job](client), kube.For[appsv1.StatefulSet](client), kube.For[appsv1.Deployment](client),
	}
	err = controller.Run(ctx, controller.Options{Address: ":8080"}, controller.Controller[Shop]{
		For:       op.shops,
		Owns:      []kube.AnyHandle{op.services, op.jobs, op.statefulSets, op.deployments},
		Watches:   []controller.Source{plan.Marked(op.shops, op.secrets)},
		Reconcile: op.reconcile,
		Cleanup:   op.cleanup,
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A Bucket is a thing outside the cluster.
type Bucket struct {
	Name  string
	Quota int64
}

// store is the API of an object store.
type store interface {
	Find(ctx context.Context, name string) (*Bucket, error) // nil: there is none
	Make(ctx context.Context, b *Bucket) error
	SetQuota(ctx context.Context, name string, quota int64) error
	Remove(ctx context.Context, name string) error
}

// A program describes once how the buckets of its store are handled. All owners share the
// limits of the store.
func ExampleStep() {
	var s3 store
	buckets := &plan.Things[Bucket]{
		Kind:       "Bucket",
		Target:     &plan.Target{Name: "the object store", Rate: 20, Concurrency: 4},
		Name:       func(b *Bucket) string { return b.Name },
		Idempotent: true, // the store has one bucket of a name
		Observe: func(ctx context.Context, r plan.Ref) (*Bucket, error) {
			return s3.Find(ctx, r.Name)
		},
		Create: func(ctx context.Context, _ plan.Ref, want *Bucket) (*Bucket, error) {
			return want, s3.Make(ctx, want)
		},
		Differs: func(is, want *Bucket) bool { return is.Quota != want.Quota },
		Update: func(ctx context.Context, r plan.Ref, _, want *Bucket) (*Bucket, error) {
			return want, s3.SetQuota(ctx, r.Name, want.Quota)
		},
		Delete: func(ctx context.Context, r plan.Ref) error {
			return s3.Remove(ctx, r.Name)
		},
	}
	children := func(op operator, s *Shop) *plan.Plan {
		p := plan.New(op.shops, s, &s.Status.Status)
		pictures := plan.Step(p, "pictures", buckets, func(plan.Inputs) (*Bucket, error) {
			return &Bucket{Name: "pictures-" + string(s.UID), Quota: 1 << 30}, nil
		}).UntilGone()
		plan.Object(p, "settings", op.secrets, func(in plan.Inputs) (*corev1.Secret, error) {
			about := metav1.ObjectMeta{Name: s.Name + "-settings"}
			return &corev1.Secret{ObjectMeta: about, Data: map[string][]byte{"bucket": []byte(pictures.From(in).Name)}}, nil
		}).Needs(pictures)
		return p
	}
	_ = children
}

// An optional need is an if of the description: the application runs with the cache and
// without it.
func ExampleNode_Needs() {
	children := func(op operator, s *Shop, withCache bool) *plan.Plan {
		p := plan.New(op.shops, s, &s.Status.Status)
		var cache *plan.Node[corev1.Service]
		app := plan.Object(p, "app", op.deployments, func(in plan.Inputs) (*appsv1.Deployment, error) {
			about, setting := metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{"shop": s.Name}}, "cache="
			if cache != nil {
				setting += cache.From(in).Spec.ClusterIP
			}
			return &appsv1.Deployment{ObjectMeta: about, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: about.Labels},
				Template: pod(about, s.Spec.Image, corev1.RestartPolicyAlways, setting),
			}}, nil
		})
		if withCache {
			cache = plan.Object(p, "cache", op.services, func(plan.Inputs) (*corev1.Service, error) {
				spec := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 6379}}}
				return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.Name + "-cache"}, Spec: spec}, nil
			})
			app.Needs(cache)
		}
		return p
	}
	_ = children
}

func pod(meta metav1.ObjectMeta, image string, restart corev1.RestartPolicy, setting string) corev1.PodTemplateSpec {
	c := corev1.Container{Name: "main", Image: image, Args: []string{setting}}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels},
		Spec:       corev1.PodSpec{RestartPolicy: restart, Containers: []corev1.Container{c}},
	}
}
