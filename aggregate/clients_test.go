package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientfeatures "k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// answers waits until a request is answered with a status.
func (f *bench) answers(what string, code int, ask func() answer) {
	f.Helper()
	kubetest.Eventually(f, what, func() error {
		if got := ask(); got.Code != code {
			return fmt.Errorf("status %d, want %d: %.300s", got.Code, code, got.Body)
		}
		return nil
	})
}

// gone waits until there is no such object.
func gone[T any](f *bench, objects kube.Resource[T], name string) {
	f.Helper()
	kubetest.Eventually(f, name+" is gone", func() error {
		o, err := objects.Get(f.Context(), name)
		if err == nil {
			return fmt.Errorf("%+v", o)
		} else if !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
}

// create creates a sample.
func (f *bench) create(namespace, name string, owners ...metav1.OwnerReference) (*Sample, error) {
	s := new(Sample)
	s.Name, s.OwnerReferences, s.Spec.Weight, s.Spec.Height = name, owners, 100, 170
	return kube.For[Sample](f.client).In(namespace).Create(f.Context(), s)
}

// testInformers follows the kinds with informers of client-go, of whole objects and of
// metadata, with streamed and with ordinary lists.
func testInformers(f *bench) {
	for _, streamed := range []bool{true, false} {
		f.Run(fmt.Sprintf("streamed=%t", streamed), func(t *testing.T) {
			clientfeaturestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, streamed)
			sub := *f
			sub.T, sub.namespace = t, f.cluster.Namespace(t)
			sub.follow(streamed)
		})
	}
}

// requests counts requests by the kind of their query.
type requests struct {
	mu              sync.Mutex
	lists, streamed int
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch q := req.URL.Query(); {
		case q.Get("sendInitialEvents") == "true":
			r.streamed++
		case q.Get("watch") == "":
			r.lists++
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// follow follows both kinds while objects appear, change and disappear.
func (f *bench) follow(streamed bool) {
	_, err := f.create(f.namespace, "first")
	f.ok(err)
	f.pod("first", "a")
	var sent requests
	config := f.cluster.Config()
	config.Wrap(sent.wrap)
	objects, err := dynamic.NewForConfig(config)
	f.ok(err)
	metas, err := metadata.NewForConfig(config)
	f.ok(err)
	whole := dynamicinformer.NewFilteredDynamicSharedInformerFactory(objects, 0, f.namespace, nil)
	partial := metadatainformer.NewFilteredSharedInformerFactory(metas, 0, f.namespace, nil)
	ctx, stop := context.WithCancel(f.Context())
	stores := map[string]cache.SharedIndexInformer{}
	for plural, version := range map[string]string{"samples": "v1alpha1", "podviews": older} {
		of := schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
		stores["whole "+plural] = whole.ForResource(of).Informer()
		stores["partial "+plural] = partial.ForResource(of).Informer()
	}
	whole.Start(ctx.Done())
	partial.Start(ctx.Done())
	defer whole.Shutdown()
	defer partial.Shutdown()
	defer stop()

	have := func(names string) {
		f.Helper()
		for name, store := range stores {
			want := strings.Fields(names)
			if strings.HasSuffix(name, "podviews") {
				want = strings.Fields(strings.ReplaceAll(" "+names, " ", " view-"))
			}
			kubetest.Eventually(f, fmt.Sprintf("%s has %s", name, want), func() error {
				keys := store.GetStore().ListKeys()
				if !store.HasSynced() || len(keys) != len(want) {
					return fmt.Errorf("synced %t, it has %s", store.HasSynced(), keys)
				}
				for _, w := range want {
					if _, found, _ := store.GetStore().GetByKey(f.namespace + "/" + w); !found {
						return fmt.Errorf("it has %s", keys)
					}
				}
				return nil
			})
		}
	}
	have("first")
	_, err = f.create(f.namespace, "second")
	f.ok(err)
	f.pod("second", "a")
	have("first second")
	f.ok(kube.For[Sample](f.client).In(f.namespace).Delete(f.Context(), "first"))
	f.ok(kube.For[corev1.Pod](f.client).In(f.namespace).Delete(f.Context(), "first", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	have("second")
	sent.mu.Lock()
	defer sent.mu.Unlock()
	if streamed != (sent.streamed >= len(stores)) || streamed == (sent.lists > 0) {
		f.Errorf("%d lists and %d streamed lists", sent.lists, sent.streamed)
	}
}

func (f *bench) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// testNamespace deletes a namespace with samples and views of pods.
func testNamespace(f *bench) {
	namespaces := kube.For[corev1.Namespace](f.client)
	n := new(corev1.Namespace)
	n.GenerateName = "leaving-"
	n, err := namespaces.Create(f.Context(), n)
	f.ok(err)
	for i := range 3 {
		_, err := f.create(n.Name, fmt.Sprint("sample-", i))
		f.ok(err)
	}
	f.ok(namespaces.Delete(f.Context(), n.Name))
	late := 0
	// The server's informer may be behind.
	kubetest.Eventually(f, "creates in a namespace that is deleted are refused", func() error {
		late++
		_, err := f.create(n.Name, fmt.Sprint("late-", late))
		if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return errors.New(fmt.Sprint("the answer is ", err))
		}
		return nil
	})
	ctx, stop := context.WithTimeout(f.Context(), time.Minute)
	defer stop()
	f.ok(namespaces.UntilGone(ctx, n.Name))
	for s, err := range kube.For[Sample](f.client).In(n.Name).List(f.Context()) {
		f.Errorf("left: %v %v", s, err)
	}
}

// testCollector deletes owners. The garbage collector looks for other kinds every 30
// seconds.
func testCollector(f *bench) {
	configs := kube.For[corev1.ConfigMap](f.client).In(f.namespace)
	config := func(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
		c := new(corev1.ConfigMap)
		c.Name, c.OwnerReferences = name, owners
		c, err := configs.Create(f.Context(), c)
		f.ok(err)
		return c
	}
	samples := kube.For[Sample](f.client).In(f.namespace)
	for _, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	} {
		name := strings.ToLower(string(policy))
		owner, err := f.create(f.namespace, name)
		f.ok(err)
		blocks := true
		config(name, metav1.OwnerReference{
			APIVersion: group + "/v1alpha1", Kind: "Sample", Name: name, UID: owner.UID, BlockOwnerDeletion: &blocks,
		})
		f.ok(samples.Delete(f.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
		gone(f, samples, name)
		if policy != metav1.DeletePropagationOrphan {
			gone(f, configs, name)
			continue
		}
		kubetest.Eventually(f, "the dependent has no owner", func() error {
			c, err := configs.Get(f.Context(), name)
			f.ok(err)
			if len(c.OwnerReferences) > 0 {
				return fmt.Errorf("it has %+v", c.OwnerReferences)
			}
			return nil
		})
	}
	root := config("root")
	_, err := f.create(f.namespace, "owned", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "root", UID: root.UID})
	f.ok(err)
	f.ok(configs.Delete(f.Context(), "root"))
	gone(f, samples, "owned")
}

// testQuota limits the number of samples. The quota's controller looks for other kinds
// every 30 seconds.
func testQuota(f *bench) {
	quotas := kube.For[corev1.ResourceQuota](f.client).In(f.namespace)
	two := resource.MustParse("2")
	name := ""
	limit := func() {
		q := new(corev1.ResourceQuota)
		q.GenerateName, q.Spec.Hard = "two-", corev1.ResourceList{}
		for _, g := range []string{group, twin} {
			q.Spec.Hard[corev1.ResourceName("count/samples."+g)] = two
		}
		q, err := quotas.Create(f.Context(), q)
		f.ok(err)
		name = q.Name
	}
	used := func(g, want string) error {
		q, err := quotas.Get(f.Context(), name)
		f.ok(err)
		is, counted := q.Status.Used[corev1.ResourceName("count/samples."+g)]
		if !counted || is.String() != want {
			return fmt.Errorf("used are %v, want %s of %s", q.Status.Used, want, g)
		}
		return nil
	}
	// A quota that was made too early is looked at again after five minutes.
	limit()
	kubetest.Eventually(f, "samples of both groups are counted", func() error {
		err := errors.Join(used(group, "0"), used(twin, "0"))
		if err != nil {
			f.ok(quotas.Delete(f.Context(), name))
			limit()
			time.Sleep(2 * time.Second) // the controller has time to count, before the next quota replaces this one
		}
		return err
	})
	for i, want := range []int{201, 201, 403} {
		got, wanted := both(func(g string) string {
			a := f.do("POST", f.path(g, ""), strings.ReplaceAll(sample(fmt.Sprint("sample-", i), `{"weight":1,"height":100}`), "{g}", g))
			if a.Code != want {
				f.Errorf("%s: %d %s", g, a.Code, a.Body)
			}
			if a.Code == http.StatusForbidden {
				return normal(a, g)
			}
			return ""
		})
		if got != wanted {
			f.Errorf("server: %s\ntwin: %s", got, wanted)
		}
	}
	kubetest.Eventually(f, "both samples are counted", func() error { return used(group, "2") })
	f.do("DELETE", f.path(group, "/sample-0"), "")
	kubetest.Eventually(f, "one sample is counted", func() error { return used(group, "1") })
}

// An older cluster has no kinds for some policies. Objects are written all the same.
func TestSoakOlderCluster(t *testing.T) {
	const missing = "--runtime-config=admissionregistration.k8s.io/v1/mutatingadmissionpolicies=false," +
		"admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings=false"
	f := serveOn(t, plain(t), kubetest.Start(t, kubetest.Options{Private: true, ServerOnly: true, APIServerArgs: []string{
		missing, "--disable-admission-plugins=MutatingAdmissionPolicy",
	}}))
	if got := f.do("GET", "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", ""); got.Code != http.StatusNotFound {
		t.Fatalf("the cluster has the kind: %d", got.Code)
	}
	_, err := f.create(f.namespace, "anna")
	f.ok(err)
}
