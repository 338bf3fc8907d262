package aggregate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// seen is a view that tells which type its source has.
type seen struct {
	kube.Object
	Spec struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		Node       string `json:"node"`
		Containers int    `json:"containers"`
	} `json:"spec"`
}

func (seen) GVK() kube.GVK {
	return kube.GVK{Group: "seen.example.com", Version: "v1", Kind: "Seen"}
}

// smallPod has some of the fields of a Pod.
type smallPod struct {
	kube.Object
	Spec struct {
		NodeName   string     `json:"nodeName"`
		Containers []struct{} `json:"containers"`
	} `json:"spec"`
}

// podServer serves pods as kube-apiserver does: in protobuf to those who ask for it. The items of a
// list in JSON have no kind.
func podServer(t *testing.T, listKind string, pods ...corev1.Pod) *kube.Client {
	t.Helper()
	encoded := map[string][]byte{} // the list, once for each type of content
	var mu sync.Mutex
	handle := func(w http.ResponseWriter, r *http.Request) {
		contentType := "application/json"
		if strings.HasPrefix(r.Header.Get("Accept"), kruntime.ContentTypeProtobuf) {
			contentType = kruntime.ContentTypeProtobuf
		}
		info, _ := kruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
		encode := func(o kruntime.Object) []byte {
			data, err := kruntime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), o)
			if err != nil {
				t.Error(err)
			}
			return data
		}
		list := &corev1.PodList{Items: pods, ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "next"}}
		w.Header().Set("Content-Type", contentType)
		switch {
		case r.URL.Path == "/api/v1/namespaces/ns/pods/pod-0":
			_, _ = w.Write(encode(&pods[0]))
		case r.URL.Path != "/api/v1/namespaces/ns/pods":
			status := apierrors.NewNotFound(corev1.Resource("pods"), "none").Status()
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write(encode(&status))
		case r.URL.Query().Get("watch") == "true":
			framer := info.StreamSerializer.Framer.NewFrameWriter(w)
			for _, kind := range []watch.EventType{watch.Added, watch.Bookmark, watch.Deleted} {
				event := &metav1.WatchEvent{Type: string(kind), Object: kruntime.RawExtension{Raw: encode(&pods[0])}}
				if err := info.StreamSerializer.Encode(event, framer); err != nil {
					t.Error(err)
				}
			}
		default:
			mu.Lock()
			defer mu.Unlock()
			if encoded[contentType] == nil {
				encoded[contentType] = []byte(strings.Replace(string(encode(list)), `"PodList"`, `"`+listKind+`"`, 1))
			}
			_, _ = w.Write(encoded[contentType])
		}
	}
	server := httptest.NewServer(http.HandlerFunc(handle))
	t.Cleanup(server.Close)
	client, err := kube.Config{Rest: &rest.Config{Host: server.URL}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func somePods(n int) (pods []corev1.Pod) {
	for i := range n {
		p := corev1.Pod{}
		p.Name, p.Namespace, p.UID, p.ResourceVersion = fmt.Sprint("pod-", i), "ns", "u", "7"
		p.Labels, p.Annotations = map[string]string{"app": "a"}, map[string]string{"secret": "yes"}
		p.CreationTimestamp, p.Generation = metav1.Unix(1e9, 0), 3
		p.Spec.NodeName, p.Spec.Containers = "node", make([]corev1.Container, 2)
		for j := range 20 {
			v := corev1.Volume{Name: fmt.Sprint("volume-", j)}
			v.HostPath = &corev1.HostPathVolumeSource{Path: "/var/lib/some/path"}
			p.Spec.Volumes = append(p.Spec.Volumes, v)
		}
		pods = append(pods, p)
	}
	return pods
}

// openViews returns the views of pods that a client serves.
func openViews[S any](t *testing.T, client *kube.Client, view func(*S) *seen) storage.Interface {
	t.Helper()
	d := crd.Of[seen](crd.Options{})
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	p := Projection[S, seen]{Definition: d, Source: kube.KindOf[corev1.Pod](), Prefix: "seen-", View: view}
	r, err := p.resource(Server{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	return r.source
}

// TestSources reads sources as a type of the library, and as a type that has some of the fields. Both
// have kind and version in each way to read them, and both give the same view.
func TestSources(t *testing.T) {
	pods := somePods(3)
	whole := openViews(t, podServer(t, "PodList", pods...), func(p *corev1.Pod) *seen {
		s := new(seen)
		s.Spec.Kind, s.Spec.APIVersion, s.Spec.Node, s.Spec.Containers = p.Kind, p.APIVersion, p.Spec.NodeName, len(p.Spec.Containers)
		return s
	})
	part := func(p *smallPod) *seen {
		s := new(seen)
		s.Spec.Kind, s.Spec.APIVersion, s.Spec.Node, s.Spec.Containers = p.Kind, p.APIVersion, p.Spec.NodeName, len(p.Spec.Containers)
		return s
	}
	want := `{"apiVersion":"seen.example.com/v1","kind":"Seen","metadata":{"creationTimestamp":"2001-09-09T01:46:40Z",` +
		`"generation":3,"labels":{"app":"a"},"name":"seen-pod-0","namespace":"ns","resourceVersion":"7",` +
		`"uid":"7b1c7e8a-0000-5000-8000-000000000000"},"spec":{"apiVersion":"v1","containers":2,"kind":"Pod","node":"node"}}`
	ctx := request.WithNamespace(t.Context(), "ns")
	for name, views := range map[string]storage.Interface{
		"whole": whole, "part": openViews(t, podServer(t, "PodList", pods...), part),
		"another kind of list": openViews(t, podServer(t, "Pods", pods...), part),
	} {
		one := new(unstructured.Unstructured)
		if err := views.Get(ctx, "x/ns/seen-pod-0", storage.GetOptions{}, one); err != nil {
			t.Fatal(name, err)
		}
		check := func(how string, o kruntime.Object) {
			t.Helper()
			u := o.(*unstructured.Unstructured).DeepCopy()
			if id, _, _ := unstructured.NestedString(u.Object, "metadata", "uid"); len(id) != 36 || id == "u" {
				t.Errorf("%s, %s: uid %q", name, how, id)
			}
			u.SetUID("7b1c7e8a-0000-5000-8000-000000000000")
			if got, err := json.Marshal(u); err != nil || strings.TrimSpace(string(got)) != want {
				t.Errorf("%s, %s: %s, want %s", name, how, got, want)
			}
		}
		check("get", one)
		if err := views.Get(ctx, "x/ns/seen-none", storage.GetOptions{}, one); !storage.IsNotFound(err) {
			t.Errorf("%s: get none: %v", name, err)
		}
		list := &unstructured.UnstructuredList{Object: map[string]any{}}
		if err := views.GetList(ctx, "", storage.ListOptions{Predicate: storage.Everything}, list); err != nil {
			t.Fatal(name, err)
		}
		if len(list.Items) != 3 || list.GetResourceVersion() != "9" || list.GetContinue() != "next" {
			t.Fatalf("%s: list %+v", name, list)
		}
		check("list", &list.Items[0])
		events, err := views.Watch(ctx, "", storage.ListOptions{Predicate: storage.Everything})
		if err != nil {
			t.Fatal(name, err)
		}
		check("watch", (<-events.ResultChan()).Object)
		mark := <-events.ResultChan()
		if u, ok := mark.Object.(*unstructured.Unstructured); !ok || mark.Type != watch.Bookmark || u.GetResourceVersion() != "7" ||
			u.GetKind() != "Seen" || u.GetName() != "" {
			t.Errorf("%s: bookmark %+v", name, mark)
		}
		last := <-events.ResultChan()
		if last.Type != watch.Deleted {
			t.Errorf("%s: %+v", name, last)
		}
		check("deleted", last.Object)
		if ev, open := <-events.ResultChan(); open {
			t.Errorf("%s: an event after the end: %+v", name, ev)
		}
		events.Stop()
	}
}

// TestSourcesMemory lists pods. For each of them the server needs less memory than maps of all its fields do.
func TestSourcesMemory(t *testing.T) {
	const n = 500
	views := openViews(t, podServer(t, "PodList", somePods(n)...), func(p *corev1.Pod) *seen { return new(seen) })
	ctx := request.WithNamespace(t.Context(), "ns")
	read := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	least := ^uint64(0)
	for range 3 {
		before := read()
		list := &unstructured.UnstructuredList{Object: map[string]any{}}
		if err := views.GetList(ctx, "", storage.ListOptions{Predicate: storage.Everything}, list); err != nil {
			t.Fatal(err)
		}
		least = min(least, (read()-before)/n)
	}
	t.Logf("%d bytes for each pod", least)
	if least > 40<<10 {
		t.Errorf("%d bytes for each pod", least)
	}
}
