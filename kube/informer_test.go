package kube_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube"
)

// changesOf follows a feed until the test ends.
func changesOf(t *testing.T, s kube.AnyHandle) <-chan kube.Change {
	t.Helper()
	feed := s.Open(context.Background())
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan kube.Change), make(chan struct{})
	go func() {
		defer close(ended)
		for c := range feed.Changes(ctx) {
			select {
			case changes <- c:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; feed.Close() })
	return changes
}

func nextChange(t *testing.T, changes <-chan kube.Change) kube.Change {
	t.Helper()
	select {
	case c := <-changes:
		return c
	case <-soon(t).Done():
		t.Fatal("no change")
		panic("unreachable")
	}
}

// A change reads the requested fields from the encoded object, for a kind with protobuf
// and for one without.
func TestFeed(t *testing.T) {
	s := start(t)
	deployments := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	changes := changesOf(t, deployments)
	if c := nextChange(t, changes); c.Type != kube.Synced {
		t.Fatalf("the first change is %v", c)
	}
	owner := got(kube.For[corev1.ConfigMap](s.Client).In(s.namespace).Create(soon(t), configMap("owner")))(t)
	labels := map[string]string{"app.example.com/name": "web"}
	yes := true
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, Controller: &yes},
			{APIVersion: "example.com/v1", Kind: "Echo", Name: "echo", UID: "u-2"},
		}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}},
		},
	}
	d = got(deployments.Create(soon(t), d))(t)
	added := nextChange(t, changes)
	if added.Type != kube.Added || added.Kind() != "Deployment" || added.Key.Name != "web" || added.UID() != d.UID ||
		!added.NewGeneration() || added.Deleting() {
		t.Errorf("the change is %+v", added)
	}
	want := []kube.Owner{
		{GVK: kube.GVK{Version: "v1", Kind: "ConfigMap"}, Name: "owner", UID: owner.UID, Controller: true},
		{GVK: kube.GVK{Group: "example.com", Version: "v1", Kind: "Echo"}, Name: "echo", UID: "u-2"},
	}
	if owners := slices.Collect(added.Owners()); !slices.Equal(owners, want) {
		t.Errorf("the owners are %+v, want %+v", owners, want)
	}

	patch := func(body string) kube.Change {
		t.Helper()
		got(deployments.Patch(soon(t), "web", types.MergePatchType, []byte(body)))(t)
		return nextChange(t, changes)
	}
	fields := func(c kube.Change, want ...string) {
		t.Helper()
		if paths, err := c.Fields(); err != nil || !slices.Equal(paths, want) {
			t.Errorf("the fields are %q, %v, want %q", paths, err, want)
		}
	}
	labeled := patch(`{"metadata":{"labels":{"app.example.com/name":"other"},"ownerReferences":null}}`)
	fields(labeled, "metadata.labels[app.example.com/name]", "metadata.ownerReferences")
	if labeled.NewGeneration() {
		t.Error("a new label is a new generation")
	}
	if owners := slices.Collect(labeled.Owners()); len(owners) != 2 {
		t.Errorf("those that were owners are %v", owners)
	}
	image := patch(`{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)
	fields(image, "spec.replicas", "spec.template.spec.containers[0].image")
	if !image.NewGeneration() {
		t.Error("a new spec is no new generation")
	}
	both := labeled.Then(image)
	fields(both, "metadata.labels[app.example.com/name]", "metadata.ownerReferences", "spec.replicas",
		"spec.template.spec.containers[0].image")
	if all := added.Then(both); all.Type != kube.Added || all.ResourceVersion() != image.ResourceVersion() {
		t.Errorf("an object that was added and modified is %s", all.Type)
	}
	if was, is, err := kube.Decode[appsv1.Deployment](image); err != nil || *was.Spec.Replicas != 1 ||
		*is.Spec.Replicas != 3 {
		t.Errorf("decoded: %v, %v, %v", was, is, err)
	}
	if _, _, err := kube.Decode[corev1.Pod](image); err == nil {
		t.Error("a Deployment is decoded into a Pod")
	}
	must(t, deployments.Delete(soon(t), "web"))
	gone := nextChange(t, changes)
	for gone.Type != kube.Deleted { // a deletion with finalizers takes several changes
		gone = nextChange(t, changes)
	}
	if gone.UID() != d.UID || !gone.Deleting() {
		t.Errorf("the end is %+v", gone)
	}
	if last := both.Then(gone); last.Type != kube.Deleted {
		t.Errorf("an object that was modified and deleted is %s", last.Type)
	}
}

// After a Refresh, reads of a store are no older than the server's state at that time,
// even if the store's watch has shown nothing.
func TestRefresh(t *testing.T) {
	s := start(t)
	other := kube.For[corev1.ConfigMap](s.connect(t, s.cluster.Config())).In(s.namespace)
	for _, name := range []string{"changed", "deleted", "same"} {
		got(other.Create(soon(t), configMap(name, "n", "1")))(t)
	}
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	store := kube.StoreOf(t.Context(), maps)
	defer store.Close()
	must(t, store.Sync(soon(t)))
	for range 20 {
		changed := got(other.Modify(soon(t), "changed", func(cm *corev1.ConfigMap) error {
			cm.Data["n"] += "1"
			return nil
		}))(t)
		must(t, other.Delete(soon(t), "deleted"))
		got(other.Create(soon(t), configMap("created")))(t)
		must(t, store.Refresh(soon(t)))
		if o := got(store.Get(soon(t), kube.KeyOf(changed)))(t); o.Data["n"] != changed.Data["n"] {
			t.Fatalf("it is read as %s, want %s", o.Data["n"], changed.Data["n"])
		}
		all := names(t, store.All(soon(t)), func(cm *corev1.ConfigMap) string { return cm.Name })
		slices.Sort(all)
		all = slices.DeleteFunc(all, func(name string) bool { return name == "kube-root-ca.crt" })
		if want := []string{"changed", "created", "same"}; !slices.Equal(all, want) {
			t.Fatalf("there are %q, want %q", all, want)
		}
		must(t, other.Delete(soon(t), "created"))
		got(other.Create(soon(t), configMap("deleted")))(t)
		must(t, store.Refresh(soon(t)))
	}
}

// The recorder of a context is told of the program's writes.
func TestRecorder(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	var told []written.Write
	ctx := written.With(soon(t), func(w written.Write) { told = append(told, w) })
	a := got(maps.Create(ctx, configMap("a")))(t)
	got(maps.With(kube.WriteOptions{DryRun: true}).Create(ctx, configMap("b")))(t)
	b := got(maps.Apply(ctx, configMap("a", "n", "1")))(t)
	must(t, maps.Delete(ctx, "a"))
	if _, err := maps.Create(ctx, a); err == nil {
		t.Error("an object with a resourceVersion is created")
	}
	type brief struct {
		rv      string
		deleted bool
	}
	var briefs []brief
	for _, w := range told {
		if w.Namespace != a.Namespace || w.Name != a.Name || w.UID != a.UID {
			t.Errorf("told of %+v", w)
		}
		if host := s.Client.Config().Rest.Host; w.Created && (w.Kind != "ConfigMap" || !strings.Contains(host, w.Server)) {
			t.Errorf("%s %q at %q is created, want a ConfigMap at %s", w.Kind, w.Group, w.Server, host)
		}
		briefs = append(briefs, brief{w.ResourceVersion, w.Deleted})
	}
	if want := []brief{{a.ResourceVersion, false}, {b.ResourceVersion, false}, {"", true}}; !slices.Equal(briefs, want) {
		t.Errorf("told of %v, want %v", briefs, want)
	}

	// A deletion that finalizers hold up is a write. DeleteAll tells of each object.
	told = nil
	held := configMap("held")
	held.Finalizers = []string{"example.com/held"}
	got(maps.Create(ctx, held))(t)
	must(t, maps.Delete(ctx, "held"))
	going := got(maps.Get(ctx, "held"))(t)
	if last := told[len(told)-1]; !last.Deleted || last.ResourceVersion != going.ResourceVersion {
		t.Errorf("told of a deletion that is held up: %+v, want version %s", last, going.ResourceVersion)
	}
	got(maps.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))(t)
	told = nil
	got(maps.Create(ctx, configMap("c")))(t)
	must(t, maps.DeleteAll(ctx))
	if n := len(told); n < 2 || !told[n-1].Deleted || told[n-1].UID == "" {
		t.Errorf("told of a DeleteAll: %+v", told)
	}

	// A write through a subresource is a write of the object.
	deployments := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	d := new(appsv1.Deployment)
	d.Name = "d"
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "none"}}
	got(deployments.Create(soon(t), d))(t)
	told = nil
	got(kube.Sub[autoscalingv1.Scale](deployments, "scale").Patch(ctx, "d", types.MergePatchType,
		[]byte(`{"spec":{"replicas":0}}`)))(t)
	scaled := got(deployments.Get(ctx, "d"))(t)
	if len(told) != 1 || told[0].Name != "d" || told[0].UID != scaled.UID || told[0].ResourceVersion == "" {
		t.Errorf("told of a scale: %+v", told)
	}
}
