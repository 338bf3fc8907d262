package wire

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// podView names fields of a Pod at several depths.
type podView struct {
	Base
	Spec struct {
		NodeName      string               `json:"nodeName,omitempty"`
		RestartPolicy corev1.RestartPolicy `json:"restartPolicy,omitempty"`
		HostNetwork   bool                 `json:"hostNetwork,omitempty"`
		Priority      *int32               `json:"priority,omitempty"`
		NodeSelector  map[string]string    `json:"nodeSelector,omitempty"`
		Containers    []struct {
			Name      string                      `json:"name"`
			Image     string                      `json:"image,omitempty"`
			Resources corev1.ResourceRequirements `json:"resources,omitzero"`
			Ports     []corev1.ContainerPort      `json:"ports,omitempty"`
		} `json:"containers"`
		Volumes []struct {
			Name      string                        `json:"name"`
			ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`
		} `json:"volumes,omitempty"`
		EphemeralContainers []struct {
			Name   string `json:"name"`
			Target string `json:"targetContainerName,omitempty"`
		} `json:"ephemeralContainers,omitempty"`
	} `json:"spec"`
	Status struct {
		Phase      string                `json:"phase,omitempty"`
		StartTime  *metav1.Time          `json:"startTime,omitempty"`
		Conditions []corev1.PodCondition `json:"conditions,omitempty"`
	} `json:"status"`
}

// Base is embedded by objects, as kube.Object is.
type Base struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

type widget struct {
	Base
	Spec struct {
		Note string `json:"note"`
	} `json:"spec"`
}

// mustCodec returns the codec for a type of k8s.io/api, or for a view of Pods.
func mustCodec[T any](t testing.TB, proto bool) *Codec {
	t.Helper()
	typ := reflect.TypeFor[T]()
	o := Options{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, View: true}
	switch {
	case strings.HasPrefix(typ.PkgPath(), "k8s.io/api/"):
		o.GVK.Kind, o.View, o.Generated = typ.Name(), false, typ
	case proto:
		o.Generated = reflect.TypeFor[corev1.Pod]()
	}
	c, err := NewCodec(typ, o)
	if err != nil {
		t.Fatal(err)
	}
	if proto && c.whole == nil {
		t.Fatalf("%s is not read as protobuf", typ)
	}
	return c
}

// filler makes objects as a server would send them.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(1, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(i *intstr.IntOrString, c randfill.Continue) {
			if *i = intstr.FromInt32(c.Int31n(100)); c.Bool() {
				*i = intstr.FromString("port")
			}
		},
		func(ts *metav1.Time, c randfill.Continue) { *ts = metav1.NewTime(time.Unix(c.Int63n(1<<31), 0)) },
		func(ts *metav1.MicroTime, c randfill.Continue) {
			*ts = metav1.NewMicroTime(time.Unix(c.Int63n(1<<31), 5000))
		},
		func(tm *metav1.TypeMeta, _ randfill.Continue) { *tm = metav1.TypeMeta{} },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:spec":{"f:a":{}}}`) },
	)
}

const fuzzedPods = 60

// A Pod that was stored and is read back is the Pod without managedFields.
func TestRecordsDecodeToWhatWasSent(t *testing.T) { testRecords(t, fuzzedPods) }

func TestSoakRecordsDecodeToWhatWasSent(t *testing.T) { testRecords(t, 5*fuzzedPods) }

func testRecords(t *testing.T, count int) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	fill := filler(seed)
	c := mustCodec[corev1.Pod](t, true)
	rec := NewRecorder(c)
	for range count {
		var pod corev1.Pod
		fill.Fill(&pod)
		key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		for _, proto := range []bool{true, false} {
			raw := marshal(t, &pod)
			want := new(corev1.Pod)
			if !proto {
				raw = marshalJSON(t, &pod)
				if err := json.Unmarshal(raw, want); err != nil {
					t.Fatal(err)
				}
			} else if err := want.Unmarshal(raw); err != nil {
				t.Fatal(err)
			}
			want.ManagedFields = nil
			want.Kind, want.APIVersion = "Pod", "v1"
			r, err := rec.Record(Raw{raw, proto})
			if err != nil {
				t.Fatal(err)
			}
			if r.Key != key || r.UID != pod.UID || r.ResourceVersion != pod.ResourceVersion || r.body.Protobuf != proto {
				t.Fatalf("record of %v: %+v", key, r)
			}
			e := NewEntry(r)
			got := new(corev1.Pod)
			if err := e.Decode(c, got); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(got, want) {
				t.Fatalf("protobuf %t: got\n%s\nwant\n%s", proto, marshalJSON(t, got), marshalJSON(t, want))
			}
			found := e.Labels()
			for name, value := range pod.Labels {
				if v, ok := found.Lookup(name); v != value || !ok || !found.Has(name) || found.Get(name) != value {
					t.Fatalf("label %s is %q, %v, want %q", name, v, ok, value)
				}
			}
			if v, ok := found.Lookup("no label"); ok || v != "" {
				t.Fatalf("a label that is not there is %q", v)
			}
		}
	}
}

// A view reads the same from protobuf and from JSON, and the same as encoding/json reads.
func TestViewsReadTheSameFromProtobufAndJSON(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	fill := filler(seed)
	byProto, byJSON := mustCodec[podView](t, true), mustCodec[podView](t, false)
	recProto, recJSON := NewRecorder(byProto), NewRecorder(byJSON)
	for range fuzzedPods {
		var pod corev1.Pod
		fill.Fill(&pod)
		read := func(rec *Recorder, proto bool, raw []byte) *podView {
			r, err := rec.Record(Raw{raw, proto})
			if err != nil {
				t.Fatal(err)
			}
			v := new(podView)
			if err := NewEntry(r).Decode(rec.codec, v); err != nil {
				t.Fatal(err)
			}
			return v
		}
		encoded := marshalJSON(t, &pod)
		fromProto, fromJSON := read(recProto, true, marshal(t, &pod)), read(recJSON, false, encoded)
		want := new(podView)
		if err := json.Unmarshal(encoded, want); err != nil {
			t.Fatal(err)
		}
		want.ManagedFields, want.Kind, want.APIVersion = nil, "Pod", "v1"
		if !equality.Semantic.DeepEqual(fromJSON, want) {
			t.Fatalf("by JSON: got\n%s\nwant\n%s", marshalJSON(t, fromJSON), marshalJSON(t, want))
		}
		if !equality.Semantic.DeepEqual(fromProto, want) {
			t.Fatalf("by protobuf: got\n%s\nwant\n%s", marshalJSON(t, fromProto), marshalJSON(t, want))
		}
	}
}
