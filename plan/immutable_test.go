package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// stubborn is a plan with one child, whose immutable fields a test changes.
type stubborn struct {
	*bench
	class string
}

func newStubborn(t *testing.T, grows bool) *stubborn {
	t.Helper()
	b := newBench(t)
	s := &stubborn{b, b.namespace + "-class"}
	wait := storagev1.VolumeBindingImmediate
	class := &storagev1.StorageClass{Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: &grows, VolumeBindingMode: &wait}
	class.Name = s.class
	client := b.op.shops.Client()
	_, err := kube.For[storagev1.StorageClass](client).Create(b.soon(), class)
	b.ok(err)
	for i := range 2 {
		pv := new(corev1.PersistentVolume)
		pv.Name = fmt.Sprintf("%s-%d", s.class, i)
		pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		pv.Spec.StorageClassName = s.class
		pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/nowhere"}
		_, err := kube.For[corev1.PersistentVolume](client).Create(b.soon(), pv)
		b.ok(err)
	}
	b.create("stubborn")
	return s
}

// set returns a StatefulSet with a volume of some size for each of its two pods.
func (s *stubborn) set(size string) *appsv1.StatefulSet {
	about := metav1.ObjectMeta{Name: "stubborn", Labels: map[string]string{"app": "stubborn"}}
	o := &appsv1.StatefulSet{ObjectMeta: about}
	replicas := int32(2)
	o.Spec.Replicas = &replicas
	o.Spec.Selector = &metav1.LabelSelector{MatchLabels: about.Labels}
	o.Spec.Template = pod(about, "any:1", corev1.RestartPolicyAlways, "")
	o.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	claim := corev1.PersistentVolumeClaim{}
	claim.Name = "data"
	claim.Spec.StorageClassName = &s.class
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	o.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
	return o
}

// converge runs a plan until it has nothing to wait for, or returns the error of its eighth failure.
func (s *stubborn) converge(describe func(p *plan.Plan)) error {
	s.Helper()
	failed := 0
	var last error
	kubetest.Eventually(s, "the plan has nothing to wait for", func() error {
		shop, err := s.op.shops.Get(s.soon(), "stubborn")
		s.ok(err)
		p := plan.New(s.op.shops, shop, &shop.Status.Status)
		describe(p)
		_, err = p.Run(s.soon())
		if err != nil {
			if failed++; failed < 8 {
				return err
			}
			last = err
			return nil
		}
		for _, n := range shop.Status.Nodes {
			if n.State != plan.Ready {
				return fmt.Errorf("%+v", shop.Status)
			}
		}
		return nil
	})
	return last
}

// uids returns the uids of the pods and volumes of the StatefulSet.
func (s *stubborn) uids() string {
	s.Helper()
	var uids []types.UID
	for p, err := range kube.For[corev1.Pod](s.op.shops.Client()).In(s.namespace).List(s.soon()) {
		s.ok(err)
		uids = append(uids, p.UID)
	}
	for v, err := range kube.For[corev1.PersistentVolumeClaim](s.op.shops.Client()).In(s.namespace).List(s.soon()) {
		s.ok(err)
		uids = append(uids, v.UID)
	}
	return fmt.Sprint(uids)
}

func (s *stubborn) sizes() (sizes string) {
	s.Helper()
	for v, err := range kube.For[corev1.PersistentVolumeClaim](s.op.shops.Client()).In(s.namespace).List(s.soon()) {
		s.ok(err)
		sizes += v.Spec.Resources.Requests.Storage().String() + " "
	}
	return sizes
}

// A StatefulSet with changed immutable fields is recreated. Its pods and volumes are the
// same afterwards, and the volumes have grown.
func TestStatefulSetIsOrphanedAndRecreated(t *testing.T) {
	s := newStubborn(t, true)
	want := s.set("1Gi")
	describe := func(p *plan.Plan) {
		plan.Object(p, "set", s.op.statefulSets, func(plan.Inputs) (*appsv1.StatefulSet, error) { return want, nil })
	}
	s.ok(s.converge(describe))
	before, pods := s.get(), s.uids()

	want = s.set("2Gi")
	want.Spec.ServiceName = "other"
	s.ok(s.converge(describe))
	after := s.get()
	if after.UID == before.UID || after.Spec.ServiceName != "other" || s.sizes() != "2Gi 2Gi " {
		t.Errorf("the StatefulSet is %s after %s, its service %q, the volumes are %s",
			after.UID, before.UID, after.Spec.ServiceName, s.sizes())
	}
	if got := s.uids(); got != pods {
		t.Errorf("pods and volumes are %s, were %s", got, pods)
	}

	// Changes that would lose something are reported, and change nothing.
	for why, change := range map[string]func(o *appsv1.StatefulSet){
		"the volumes data cannot shrink to 1Gi": func(o *appsv1.StatefulSet) {
			o.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Gi")
		},
		"with another selector it would not take its pods over": func(o *appsv1.StatefulSet) {
			o.Spec.Selector.MatchLabels = map[string]string{"app": "else"}
			o.Spec.Template.Labels = o.Spec.Selector.MatchLabels
		},
	} {
		want = s.set("2Gi")
		change(want)
		err := s.converge(describe)
		if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "refuses to change spec") {
			t.Errorf("got %v, want %q", err, why)
		}
	}
	// A wrong StatefulSet is no reason to replace the one that runs.
	want = s.set("2Gi")
	want.Spec.ServiceName = "third"
	want.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if err := s.converge(describe); err == nil || strings.Contains(err.Error(), "refuses to change") {
		t.Errorf("got %v", err)
	}
	if got := s.get(); got.UID != after.UID || got.DeletionTimestamp != nil || s.uids() != pods {
		t.Errorf("the StatefulSet is %s, was %s; pods and volumes are %s, were %s", got.UID, after.UID, s.uids(), pods)
	}
}

// A StatefulSet is replaced also where the quota has no room for a second one.
func TestStatefulSetInAFullQuota(t *testing.T) {
	s := newStubborn(t, true)
	want := s.set("1Gi")
	describe := func(p *plan.Plan) {
		plan.Object(p, "set", s.op.statefulSets, func(plan.Inputs) (*appsv1.StatefulSet, error) { return want, nil })
	}
	s.ok(s.converge(describe))
	before := s.get()
	quotas := kube.For[corev1.ResourceQuota](s.op.shops.Client()).In(s.namespace)
	full := corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("1")}
	quota := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: full}}
	quota.Name = "full"
	_, err := quotas.Create(s.soon(), quota)
	s.ok(err)
	kubetest.Eventually(s, "the quota is full", func() error {
		q, err := quotas.Get(s.soon(), quota.Name)
		if used := q.Status.Used["count/statefulsets.apps"]; err == nil && used.Value() != 1 {
			err = fmt.Errorf("%+v", q.Status)
		}
		return err
	})
	want = s.set("1Gi")
	want.Spec.ServiceName = "other"
	s.ok(s.converge(describe))
	if after := s.get(); after.UID == before.UID || after.Spec.ServiceName != "other" {
		t.Errorf("the StatefulSet is %s, was %s, with the service %q", after.UID, before.UID, after.Spec.ServiceName)
	}
}

// An owner in a namespace reads an object of a kind without namespaces.
func TestLookupOfAClusterScopedObject(t *testing.T) {
	s := newStubborn(t, true)
	var found string
	s.ok(s.converge(func(p *plan.Plan) {
		class := plan.Lookup(p, "class", kube.For[storagev1.StorageClass](s.op.shops.Client()), kube.Key{Name: s.class})
		plan.Object(p, "set", s.op.statefulSets, func(in plan.Inputs) (*appsv1.StatefulSet, error) {
			found = class.From(in).Name
			return s.set("1Gi"), nil
		}).Needs(class)
	}))
	if found != s.class {
		t.Errorf("found %q, want %q", found, s.class)
	}
}

// If the node leaves the plan after its StatefulSet was deleted without its pods, or the
// owner is deleted then, the pods are deleted; the volumes stay.
func TestOrphansOfANodeThatLeaves(t *testing.T) {
	s := newStubborn(t, true)
	pods := kube.For[corev1.Pod](s.op.shops.Client()).In(s.namespace)
	count := func() (n int) {
		for _, err := range pods.List(s.soon()) {
			s.ok(err)
			n++
		}
		return n
	}
	orphan := func() {
		t.Helper()
		want := s.set("1Gi")
		describe := func(p *plan.Plan) {
			plan.Object(p, "set", s.op.statefulSets, func(plan.Inputs) (*appsv1.StatefulSet, error) { return want, nil })
		}
		s.ok(s.converge(describe))
		want = s.set("1Gi")
		want.Spec.ServiceName = "other"
		was := s.get().UID
		kubetest.Eventually(t, "the set is deleted", func() error {
			o, err := s.op.statefulSets.Get(s.soon(), "stubborn")
			switch {
			case apierrors.IsNotFound(err):
				if n := count(); n != 2 {
					t.Fatalf("%d pods are left of the orphaned set", n)
				}
				return nil
			case err == nil && o.UID != was:
				t.Fatal("the test has missed the gap")
			case err == nil && o.DeletionTimestamp == nil:
				shop, err := s.op.shops.Get(s.soon(), "stubborn")
				s.ok(err)
				p := plan.New(s.op.shops, shop, &shop.Status.Status)
				describe(p)
				_, err = p.Run(s.soon())
				s.ok(err)
			}
			return errors.New(fmt.Sprint(o, err))
		})
	}
	gone := func(why string) {
		t.Helper()
		kubetest.Eventually(t, why+", and the pods are gone", func() error {
			if n := count(); n > 0 {
				return fmt.Errorf("%d pods are left", n)
			}
			return nil
		})
		if _, err := s.op.statefulSets.Get(s.soon(), "stubborn"); !apierrors.IsNotFound(err) || count() > 0 {
			t.Errorf("%s: %d pods are left, the set: %v", why, count(), err)
		}
		if s.sizes() != "1Gi 1Gi " {
			t.Errorf("%s: the volumes are %s", why, s.sizes())
		}
	}
	orphan()
	s.ok(s.converge(func(*plan.Plan) {}))
	gone("the node has left")

	orphan()
	kubetest.Eventually(t, "the plan is deleted", func() error {
		shop, err := s.op.shops.Get(s.soon(), "stubborn")
		s.ok(err)
		action, err := plan.New(s.op.shops, shop, &shop.Status.Status).Delete(s.soon())
		s.ok(err)
		if action != controller.Done {
			return fmt.Errorf("%+v", shop.Status)
		}
		return nil
	})
	gone("the owner is deleted")
}

func (s *stubborn) get() *appsv1.StatefulSet {
	s.Helper()
	o, err := s.op.statefulSets.Get(s.soon(), "stubborn")
	s.ok(err)
	return o
}

// Where the StorageClass does not allow growth, the StatefulSet stays as it is.
func TestVolumesThatCannotGrow(t *testing.T) {
	s := newStubborn(t, false)
	want := s.set("1Gi")
	describe := func(p *plan.Plan) {
		plan.Object(p, "set", s.op.statefulSets, func(plan.Inputs) (*appsv1.StatefulSet, error) { return want, nil })
	}
	s.ok(s.converge(describe))
	before, pods := s.get(), s.uids()
	want = s.set("2Gi")
	err := s.converge(describe)
	remedy := "grow the volume data-stubborn-0 to 2Gi: set allowVolumeExpansion of StorageClass " + s.class + ", or the former size: "
	if err == nil || !strings.Contains(err.Error(), remedy) {
		t.Errorf("got %v", err)
	}
	if after := s.get(); after.UID != before.UID || s.uids() != pods || s.sizes() != "1Gi 1Gi " {
		t.Errorf("the StatefulSet is %s, was %s; volumes are %s", after.UID, before.UID, s.sizes())
	}
}

// A Job is deleted with its pods and created again; other kinds are reported, unless the
// node says otherwise.
func TestImmutableFields(t *testing.T) {
	s := newStubborn(t, true)
	image := "any:1"
	job := func(p *plan.Plan) {
		plan.Object(p, "job", s.op.jobs, func(plan.Inputs) (*batchv1.Job, error) {
			about := metav1.ObjectMeta{Name: "job"}
			return &batchv1.Job{ObjectMeta: about, Spec: batchv1.JobSpec{Template: pod(about, image, corev1.RestartPolicyNever, "")}}, nil
		})
	}
	s.ok(s.converge(job))
	before, err := s.op.jobs.Get(s.soon(), "job")
	s.ok(err)
	image = "any:2"
	s.ok(s.converge(job))
	after, err := s.op.jobs.Get(s.soon(), "job")
	s.ok(err)
	if after.UID == before.UID || after.Spec.Template.Spec.Containers[0].Image != image || !ready.Is(after) {
		t.Errorf("the Job is %s after %s, its image %s", after.UID, before.UID, after.Spec.Template.Spec.Containers[0].Image)
	}

	app, replacement := "one", plan.Replacement("")
	deployment := func(p *plan.Plan) {
		n := plan.Object(p, "app", s.op.deployments, func(plan.Inputs) (*appsv1.Deployment, error) {
			about := metav1.ObjectMeta{Name: "app", Labels: map[string]string{"app": app}}
			o := &appsv1.Deployment{ObjectMeta: about}
			o.Spec.Selector = &metav1.LabelSelector{MatchLabels: about.Labels}
			o.Spec.Template = pod(about, "any:1", corev1.RestartPolicyAlways, "")
			return o, nil
		})
		if replacement != "" {
			n.OnImmutable(replacement)
		}
	}
	s.ok(s.converge(deployment))
	app = "two"
	err = s.converge(deployment)
	if err == nil || !strings.Contains(err.Error(), "the server refuses to change spec.selector of Deployment ") ||
		!strings.Contains(err.Error(), "save its data and delete it") {
		t.Errorf("got %v", err)
	}
	replacement = plan.Recreate
	s.ok(s.converge(deployment))
	is, err := s.op.deployments.Get(s.soon(), "app")
	s.ok(err)
	if is.Spec.Selector.MatchLabels["app"] != "two" {
		t.Errorf("the selector is %v", is.Spec.Selector)
	}
}

// A workload that is not ready in time says why its pods are not.
func TestReasonsOfPods(t *testing.T) {
	t.Parallel()
	s := newStubborn(t, true)
	describe := func(p *plan.Plan) {
		plan.Object(p, "app", s.op.deployments, func(plan.Inputs) (*appsv1.Deployment, error) {
			about := metav1.ObjectMeta{Name: "app", Labels: map[string]string{"app": "huge"}}
			o := &appsv1.Deployment{ObjectMeta: about}
			replicas, deadline := int32(3), int32(20)
			o.Spec.ProgressDeadlineSeconds = &deadline
			o.Spec.Replicas, o.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: about.Labels}
			o.Spec.Template = pod(about, "any:1", corev1.RestartPolicyAlways, "")
			o.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000000")}
			return o, nil
		}).Within(2 * time.Second)
	}
	until := func(state plan.State) (n plan.NodeStatus) {
		kubetest.Eventually(t, "the node is "+string(state), func() error {
			shop, err := s.op.shops.Get(s.soon(), "stubborn")
			s.ok(err)
			p := plan.New(s.op.shops, shop, &shop.Status.Status)
			describe(p)
			_, err = p.Run(s.soon())
			s.ok(err)
			if n = shop.Status.Nodes[0]; n.State != state || !strings.Contains(n.Message, "and 2 more pods") {
				return fmt.Errorf("%+v", n)
			}
			return nil
		})
		return n
	}
	degraded := until(plan.Degraded)
	reasons := []string{"0 of 3 replicas", ": pod app-", ": Unschedulable: 0/", "Insufficient cpu"}
	for _, want := range append(reasons, "not ready within 2s: ") {
		if !strings.Contains(degraded.Message, want) {
			t.Errorf("the message is %q, want %q in it", degraded.Message, want)
		}
	}
	// The Deployment gives up.
	failed := until(plan.Failed)
	for _, want := range append(reasons, "has timed out progressing") {
		if !strings.Contains(failed.Message, want) {
			t.Errorf("the message of a failed node is %q, want %q in it", failed.Message, want)
		}
	}
	if failed.State != plan.Failed || !failed.Since.Equal(&degraded.Since) {
		t.Errorf("it is %s since %s, was not ready since %s", failed.State, failed.Since, degraded.Since)
	}
}

func TestWrongReplacements(t *testing.T) {
	s := newStubborn(t, true)
	claims := kube.For[corev1.PersistentVolumeClaim](s.op.shops.Client())
	for want, describe := range map[string]func(p *plan.Plan){
		`"set" must not be recreated`: func(p *plan.Plan) {
			plan.Object(p, "set", s.op.statefulSets, func(plan.Inputs) (*appsv1.StatefulSet, error) { return s.set("1Gi"), nil }).
				OnImmutable(plan.Recreate)
		},
		`"claim" must not be recreated`: func(p *plan.Plan) {
			plan.Lookup(p, "claim", claims, kube.Key{Name: "x"}).OnImmutable(plan.Recreate)
		},
		`"secret" is no StatefulSet`: func(p *plan.Plan) {
			plan.Lookup(p, "secret", s.op.secrets, kube.Key{Name: "x"}).OnImmutable(plan.Orphan)
		},
		`"secret" is retained`: func(p *plan.Plan) {
			plan.Lookup(p, "secret", s.op.secrets, kube.Key{Name: "x"}).Retain().OnImmutable(plan.Recreate)
		},
		`unknown replacement "Never"`: func(p *plan.Plan) {
			plan.Lookup(p, "secret", s.op.secrets, kube.Key{Name: "x"}).OnImmutable("Never")
		},
	} {
		if err := s.converge(describe); err == nil || !strings.Contains(err.Error(), "the plan is wrong: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
