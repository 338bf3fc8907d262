package aggregate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

const (
	group = "farm.example.com"
	// twin is the group of the same kind with a definition.
	twin = "twin.example.com"
)

// A Llama carries things.
type Llama struct {
	kube.Object
	Spec struct {
		// Weight is in kilograms.
		Weight int32 `json:"weight" crd:"min=1,max=500,column"`
		// Height is in centimetres.
		Height int32    `json:"height" crd:"min=1,column,selectable"`
		Color  string   `json:"color,omitempty" crd:"default=white,enum=white|brown|black,column,priority=1"`
		_      struct{} `crd:"rule='self.height < 300',message='no llama is that tall'"`

		Friends []string `json:"friends,omitempty" crd:"listType=set,maxItems=3"`
	} `json:"spec"`
	Status struct {
		Mood     string `json:"mood,omitempty" crd:"column"`
		Replicas int32  `json:"replicas,omitempty"`
	} `json:"status,omitzero"`
}

// GVK names the kind.
func (Llama) GVK() kube.GVK { return kube.GVK{Group: group, Version: "v1alpha1", Kind: "Llama"} }

// A FarmPod is a view of a Pod.
type FarmPod struct {
	kube.Object
	Spec struct {
		Containers int32  `json:"containers" crd:"column"`
		Node       string `json:"node,omitempty" crd:"column,selectable"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase,omitempty" crd:"column"`
	} `json:"status,omitzero"`
}

// GVK names the kind.
func (FarmPod) GVK() kube.GVK { return kube.GVK{Group: group, Version: "v1alpha1", Kind: "FarmPod"} }

func llamas(t testing.TB) *crd.Definition {
	t.Helper()
	d, err := crd.Of[Llama](crd.Options{ShortNames: []string{"ll"}, Categories: []string{"farm"}, Scale: &crd.Scale{
		SpecReplicasPath: ".spec.weight", StatusReplicasPath: ".status.replicas",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func farmPods(t testing.TB) *crd.Definition {
	t.Helper()
	d, err := crd.Of[FarmPod](crd.Options{Categories: []string{"farm"}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func view(p *corev1.Pod) *FarmPod {
	if p.Annotations["hide"] != "" {
		return nil
	}
	f := new(FarmPod)
	f.Spec.Containers, f.Spec.Node, f.Status.Phase = int32(len(p.Spec.Containers)), p.Spec.NodeName, string(p.Status.Phase)
	return f
}

// farm is a server that a cluster routes to.
type farm struct {
	*testing.T
	cluster   *kubetest.Cluster
	client    *kube.Client
	http      *http.Client
	namespace string
	address   string
	cache     string // of kubectl
	stop      func()
}

// plain is the server of most tests.
func plain(t *testing.T) aggregate.Server {
	return aggregate.Server{
		Kinds: []aggregate.Any{
			aggregate.Stored[Llama]{
				Definition: llamas(t),
				Validate: func(_ context.Context, l, old *Llama) field.ErrorList {
					if l.Name == "ghost" {
						return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), l.Name, "there are no ghosts")}
					}
					return nil
				},
				Default: func(_ context.Context, l *Llama) error {
					if l.Annotations["tall"] != "" && l.Spec.Height == 0 {
						l.Spec.Height = 180
					}
					return nil
				},
				Subresources: []aggregate.Subresource[Llama]{{
					Name: "cry", Verb: "create",
					Serve: func(w http.ResponseWriter, r *http.Request, l *Llama) error {
						if l.Spec.Color == "black" {
							return errors.New("black llamas are silent")
						}
						_, err := fmt.Fprintf(w, "%s cries", l.Name)
						return err
					},
				}},
			},
			aggregate.Projection[corev1.Pod, FarmPod]{
				Definition: farmPods(t), Source: kube.KindOf[corev1.Pod](), Prefix: "farm-", View: view,
			},
		},
		Storage: aggregate.Storage{Temporary: true},
	}
}

// serve starts a server and waits until the cluster routes to it.
func serve(t *testing.T, server aggregate.Server) *farm {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
	config := cluster.Config()
	client, err := kube.Config{Rest: config}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(httpClient.CloseIdleConnections)
	f := &farm{T: t, cluster: cluster, client: client, http: httpClient, namespace: cluster.Namespace(t)}
	f.start(server)
	return f
}

// start starts the server and waits until the cluster routes to it.
func (f *farm) start(server aggregate.Server) {
	f.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	server.Client, server.Listener = f.client, listener
	server.Registration = aggregate.Registration{Local: true, Service: kube.Key{Namespace: f.namespace, Name: "farm"}}
	f.address = "https://" + listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		stop()
		if err := <-ended; err != nil {
			f.Error(err)
		}
	}
	f.Cleanup(f.stop)
	began := time.Now()
	services := kube.For[aggregate.APIService](f.client)
	available := func(s *aggregate.APIService) bool {
		for _, c := range s.Status.Conditions {
			if c.Type == "Available" && c.Status == "True" {
				return true
			}
		}
		return false
	}
	wait, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	for {
		s, err := services.Get(wait, "v1alpha1."+group)
		if err == nil && available(s) {
			f.Logf("available after %s", time.Since(began))
			return
		}
		select {
		case err := <-ended:
			f.Fatalf("the server has ended: %v", err)
		case <-wait.Done():
			f.Fatalf("the server is not available: %v, %+v", err, s)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ready returns how long it takes until a direct client finds the server ready.
func (f *farm) ready() time.Duration {
	f.Helper()
	began := time.Now()
	for {
		resp, err := direct.Get(f.address + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return time.Since(began)
			}
		}
		if time.Since(began) > 30*time.Second {
			f.Fatalf("the server is not ready: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// direct is a client that bypasses kube-apiserver.
var direct = &http.Client{Transport: &http.Transport{
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // other tests check the server's certificate
	DisableKeepAlives: true,
}}

// answer is an answer as a client sees it.
type answer struct {
	Code    int
	Body    string
	Warning []string
}

// do sends a request through kube-apiserver. Header lines are given as "Name: value".
func (f *farm) do(method, path, body string, header ...string) answer {
	f.Helper()
	req, err := http.NewRequestWithContext(f.Context(), method, f.cluster.Config().Host+path, bytes.NewBufferString(body))
	if err != nil {
		f.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := f.http.Do(req)
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		f.Fatal(err)
	}
	return answer{resp.StatusCode, string(data), resp.Header.Values("Warning")}
}

// path returns the path of llamas of a group.
func (f *farm) path(group, rest string) string {
	return "/apis/" + group + "/v1alpha1/namespaces/" + f.namespace + "/llamas" + rest
}

// indent makes JSON readable in the difference of two answers.
func indent(v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
