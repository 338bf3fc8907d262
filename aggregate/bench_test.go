package aggregate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

const (
	group = "self.example.com"
	// twin is the group of the same kind with a definition.
	twin = "twin.example.com"
)

// A Sample carries things.
type Sample struct {
	kube.Object
	Spec struct {
		// Weight is in kilograms.
		Weight int32 `json:"weight" crd:"min=1,max=500,column"`
		// Height is in centimetres.
		Height int32    `json:"height" crd:"min=1,column,selectable"`
		Color  string   `json:"color,omitempty" crd:"default=white,enum=white|brown|black,column,priority=1"`
		_      struct{} `crd:"rule='self.height < 300',message='no sample is that tall'"`

		Age     int32    `json:"age,omitempty"`
		Friends []string `json:"friends,omitempty" crd:"listType=set,maxItems=3"`
	} `json:"spec"`
	Status struct {
		Mood     string `json:"mood,omitempty" crd:"column"`
		Replicas int32  `json:"replicas,omitempty"`
	} `json:"status,omitzero"`
}

// GVK names the kind.
func (Sample) GVK() kube.GVK { return kube.GVK{Group: group, Version: "v1alpha1", Kind: "Sample"} }

// A PodView is a view of a Pod.
type PodView struct {
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
func (PodView) GVK() kube.GVK { return kube.GVK{Group: group, Version: "v1alpha1", Kind: "PodView"} }

// older is a version that is served beside the one in which objects are stored.
const older = "v1alpha"

func samples(t testing.TB) *crd.Definition {
	t.Helper()
	d := crd.Of[Sample](crd.Options{ShortNames: []string{"sm"}, Categories: []string{"samples-all"}, Scale: &crd.Scale{
		SpecReplicasPath: ".spec.weight", StatusReplicasPath: ".status.replicas",
	}})
	return inBothVersions(t, d)
}

func podViews(t testing.TB) *crd.Definition {
	t.Helper()
	d := crd.Of[PodView](crd.Options{Categories: []string{"samples-all"}})
	return inBothVersions(t, d)
}

func inBothVersions(t testing.TB, d *crd.Definition) *crd.Definition {
	t.Helper()
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	same := d.Spec.Versions[0]
	same.Name, same.Storage = older, false
	d.Spec.Versions = append(d.Spec.Versions, same)
	return d
}

func view(p *corev1.Pod) *PodView {
	if p.Annotations["panic"] != "" {
		panic("this pod has no view")
	}
	if p.Annotations["hide"] != "" {
		return nil
	}
	f := new(PodView)
	f.Spec.Containers, f.Spec.Node, f.Status.Phase = int32(len(p.Spec.Containers)), p.Spec.NodeName, string(p.Status.Phase)
	return f
}

// bench is a server that a cluster routes to.
type bench struct {
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
			aggregate.Stored[Sample]{
				Definition: samples(t),
				Validate: func(_ context.Context, l, old *Sample) field.ErrorList {
					switch l.Name {
					case "panics":
						panic("this sample cannot be validated")
					case "ghost":
						return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), l.Name, "there are no ghosts")}
					}
					return nil
				},
				Default: func(_ context.Context, l *Sample) error {
					if l.Annotations["tall"] != "" && l.Spec.Height == 0 {
						l.Spec.Height = 180
					}
					return nil
				},
				Subresources: []aggregate.Subresource[Sample]{{
					Name: "cry", Verb: "create",
					Serve: func(w http.ResponseWriter, r *http.Request, l *Sample) error {
						if l.Spec.Color == "black" {
							return errors.New("black samples are silent")
						}
						_, err := fmt.Fprintf(w, "%s cries", l.Name)
						return err
					},
				}, {
					Name: "count",
					Serve: func(w http.ResponseWriter, r *http.Request, _ *Sample) error {
						body, err := io.ReadAll(r.Body)
						if err != nil {
							return err
						}
						_, err = fmt.Fprint(w, len(body))
						return err
					},
				}, {
					Name: "talk", Verb: "get", Stream: true, Serve: talk,
				}, {
					Name: "log", Verb: "get", Stream: true,
					Serve: func(w http.ResponseWriter, r *http.Request, l *Sample) error {
						for i := range 3 {
							fmt.Fprintf(w, "line %d of %s\n", i, l.Name)
							if err := http.NewResponseController(w).Flush(); err != nil {
								return err
							}
							if i == 1 { // the client reads two lines while the request goes on
								<-r.Context().Done()
							}
						}
						return nil
					},
				}},
			},
			aggregate.Projection[corev1.Pod, PodView]{
				Definition: podViews(t), Source: kube.KindOf[corev1.Pod](), Prefix: "view-", View: view,
				Subresources: []aggregate.Subresource[PodView]{{
					Name: "phase", Verb: "get",
					Serve: func(w http.ResponseWriter, _ *http.Request, p *PodView) error {
						_, err := fmt.Fprintf(w, "%s is %s", p.Name, p.Status.Phase)
						return err
					},
				}},
			},
		},
		Storage: aggregate.Storage{Temporary: true},
	}
}

// serve starts a server and waits until the cluster routes to it.
func serve(t *testing.T, server aggregate.Server) *bench {
	t.Helper()
	return serveOn(t, server, kubetest.Start(t, kubetest.Options{Nodes: 1}))
}

// serveOn starts a server beside a cluster and waits until the cluster routes to it.
func serveOn(t *testing.T, server aggregate.Server, cluster *kubetest.Cluster) *bench {
	t.Helper()
	f := prepare(t, cluster)
	f.start(server)
	return f
}

// prepare connects to a cluster that has no server yet.
func prepare(t *testing.T, cluster *kubetest.Cluster) *bench {
	t.Helper()
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
	return &bench{T: t, cluster: cluster, client: client, http: httpClient, namespace: cluster.Namespace(t)}
}

// start starts the server and waits until the cluster routes to it.
func (f *bench) start(server aggregate.Server) {
	f.Helper()
	server.Client, server.Address = f.client, testport.Address(f.T)
	server.Registration = aggregate.Registration{Local: true, Service: kube.Key{Namespace: f.namespace, Name: "samples"}}
	f.address = "https://" + server.Address
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
	services := kube.For[apiService](f.client)
	available := func(s *apiService) bool {
		for _, c := range s.Status.Conditions {
			if c.Type == "Available" && c.Status == "True" {
				return true
			}
		}
		return false
	}
	kubetest.Eventually(f, "the server is available", func() error {
		select {
		case err := <-ended:
			ended <- nil // for f.stop
			f.Fatalf("the server has ended: %v", err)
		default:
		}
		s, err := services.Get(f.Context(), "v1alpha1."+group)
		if err != nil || !available(s) {
			return errors.New(fmt.Sprint(err, s))
		}
		// kube-apiserver sends requests to the server some time after it has found it available.
		if got := f.do(http.MethodGet, "/apis/"+group+"/v1alpha1", ""); got.Code != http.StatusOK {
			return fmt.Errorf("status %d: %.300s", got.Code, got.Body)
		}
		return nil
	})
	f.Logf("available after %s", time.Since(began))
}

// ready returns how long it takes until a direct client finds the server ready.
func (f *bench) ready() time.Duration {
	f.Helper()
	began := time.Now()
	kubetest.Eventually(f, "a direct client finds the server ready", func() error {
		resp, err := direct.Get(f.address + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		return err
	})
	return time.Since(began)
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
func (f *bench) do(method, path, body string, header ...string) answer {
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

// path returns the path of samples of a group.
func (f *bench) path(group, rest string) string {
	return "/apis/" + group + "/v1alpha1/namespaces/" + f.namespace + "/samples" + rest
}

// indent makes JSON readable in the difference of two answers.
func indent(v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// apiService has the fields of an APIService that tests read.
type apiService struct {
	kube.Object
	Spec struct {
		Group    string `json:"group"`
		CABundle []byte `json:"caBundle"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// GVK names the kind.
func (apiService) GVK() kube.GVK {
	return kube.GVK{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
}
