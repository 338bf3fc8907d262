package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/bench/fixture"
)

// podServer plays a server of Pods that change while they are watched.
type podServer struct {
	*httptest.Server
	objects, rate int
	managed       []metav1.ManagedFieldsEntry
	sizes         []int // of the Pods as they are listed
}

// listedVersion is the resource version of the list. The changes have the versions after it.
const listedVersion = 1_000_000

const protobufType = "application/vnd.kubernetes.protobuf"

func startPodServer(objects, rate int) (*podServer, error) {
	s := &podServer{objects: objects, rate: rate, sizes: make([]int, objects)}
	var err error
	if s.managed, err = managedFields(); err != nil {
		return nil, err
	}
	for i := range s.sizes {
		s.sizes[i] = s.pod(i, 0).Size()
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	return s, nil
}

// config returns the way to the server.
func (s *podServer) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

// pod returns the i-th Pod after a change, or as it is listed.
func (s *podServer) pod(i int, change int64) *corev1.Pod {
	p := fixture.Pod(i)
	fixture.SetPodStatus(p, i)
	p.UID = types.UID(fmt.Sprintf("1b2c3d4e-0000-4000-8000-%012d", i))
	p.ResourceVersion = strconv.FormatInt(listedVersion-int64(s.objects)+int64(i), 10)
	p.CreationTimestamp = metav1.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
	p.ManagedFields = s.managed
	if change > 0 {
		p.ResourceVersion = strconv.FormatInt(listedVersion+change, 10)
		p.Annotations["bench.example.com/change"] = p.ResourceVersion
	}
	return p
}

func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	switch {
	case r.URL.Path != podsPath:
		http.NotFound(w, r)
	case r.URL.Query().Has("watch"):
		err = s.watch(r.Context(), w)
	default:
		err = s.list(w)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client has gone, or sees that the answer is cut
	}
}

// list answers with all Pods. It makes one at a time.
func (s *podServer) list(w http.ResponseWriter) error {
	meta, err := (&metav1.ListMeta{ResourceVersion: strconv.Itoa(listedVersion)}).Marshal()
	if err != nil {
		return err
	}
	list := appendField(nil, 1, meta)
	total := len(list)
	for _, n := range s.sizes {
		total += len(appendHead(nil, 2, n)) + n
	}
	w.Header().Set("Content-Type", protobufType)
	head := appendField([]byte("k8s\x00"), 1, typeMeta("PodList")) // a runtime.Unknown, whose raw is the list
	if _, err := w.Write(append(appendHead(head, 2, total), list...)); err != nil {
		return err
	}
	for i := range s.objects {
		msg, err := s.pod(i, 0).Marshal()
		if err == nil {
			_, err = w.Write(append(appendHead(nil, 2, len(msg)), msg...))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// watch sends changes, each when it is due, until the client leaves.
func (s *podServer) watch(ctx context.Context, w http.ResponseWriter) error {
	w.Header().Set("Content-Type", protobufType+";stream=watch")
	flush := w.(http.Flusher).Flush
	flush()
	every := time.Second / time.Duration(s.rate)
	begin := time.Now().Add(warmUp)
	for n := int64(1); ctx.Err() == nil; n++ {
		if wait := time.Until(begin.Add(time.Duration(n) * every)); wait > 0 {
			flush()
			if err := sleep(ctx, wait); err != nil {
				return err
			}
		}
		event, err := modified(s.pod(int(n*7919)%s.objects, n))
		if err == nil {
			_, err = w.Write(event)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// modified returns the frame of an event.
func modified(p *corev1.Pod) ([]byte, error) {
	msg, err := p.Marshal()
	if err != nil {
		return nil, err
	}
	object := appendField(appendField([]byte("k8s\x00"), 1, typeMeta("Pod")), 2, msg)
	event, err := (&metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...), nil
}

// typeMeta returns the protobuf of a runtime.TypeMeta.
func typeMeta(kind string) []byte {
	return appendField(appendField(nil, 1, []byte("v1")), 2, []byte(kind))
}

func appendField(dst []byte, num int, val []byte) []byte {
	return append(appendHead(dst, num, len(val)), val...)
}

// appendHead appends tag and length of a field.
func appendHead(dst []byte, num, length int) []byte {
	return binary.AppendUvarint(append(dst, byte(num<<3|2)), uint64(length))
}

// managedFields returns entries of about the size of those of a Pod that a controller makes and a
// kubelet runs.
func managedFields() ([]metav1.ManagedFieldsEntry, error) {
	p := fixture.Pod(0)
	fixture.SetPodStatus(p, 0)
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	at := metav1.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
	entry := func(manager, part, subresource string) metav1.ManagedFieldsEntry {
		raw, _ := json.Marshal(map[string]any{"f:" + part: fieldsOf(fields[part])}) // it was JSON
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)), Subresource: subresource,
		}
	}
	return []metav1.ManagedFieldsEntry{
		entry(fixture.SpecManager, "spec", ""), entry(fixture.StatusManager, "status", "status"),
	}, nil
}

// fieldsOf returns the fields of a value in the form of FieldsV1.
func fieldsOf(value any) any {
	fields := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			fields["f:"+name] = fieldsOf(v)
		}
	case []any:
		for _, v := range value {
			if o, ok := v.(map[string]any); ok {
				key, _ := json.Marshal(map[string]any{"name": o["name"]}) // it was JSON
				fields["k:"+string(key)] = fieldsOf(v)
			}
		}
	}
	return fields
}
