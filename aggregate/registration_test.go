package aggregate

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/manifest"
)

// refusing fails requests whose method and path contain texts.
type refusing struct {
	next  http.RoundTripper
	texts []string
}

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	for _, text := range r.texts {
		if strings.Contains(req.Method+" "+req.URL.Path, text) {
			return nil, errors.New("refused by the test")
		}
	}
	return r.next.RoundTrip(req)
}

// TestLead registers a process and fails at each step. Nothing is left behind.
func TestLead(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	connect := func(texts ...string) *kube.Client {
		config := cluster.Config()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{next, texts} })
		client, err := kube.Config{Rest: config}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	namespace := cluster.Namespace(t)
	services := kube.For[corev1.Service](connect()).In(namespace)
	r := Registration{
		Service: kube.Key{Namespace: namespace, Name: "led"}, Local: true, port: 8443,
		versions: []schema.GroupVersion{{Group: "led.example.com", Version: "v1"}},
	}
	ip := net.IPv4(192, 0, 2, 1)
	for _, step := range []string{"GET /apis/apiregistration.k8s.io/v1/apiservices/", "PATCH /apis/discovery.k8s.io/"} {
		if _, err := r.lead(t.Context(), connect(step), ip, nil); err == nil || !strings.Contains(err.Error(), "refused by the test") {
			t.Errorf("%s: %v", step, err)
		}
		if s, err := services.Get(t.Context(), "led"); !apierrors.IsNotFound(err) {
			t.Errorf("%s: the Service is left behind: %v %v", step, s, err)
		}
	}
	undo, err := r.lead(t.Context(), connect(), ip, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := services.Get(t.Context(), "led"); err != nil {
		t.Error(err)
	}
	undo()
	if _, err := services.Get(t.Context(), "led"); !apierrors.IsNotFound(err) {
		t.Errorf("the Service stays: %v", err)
	}
}

// thing is a kind.
type thing struct{ kube.Object }

func (thing) GVK() kube.GVK {
	return kube.GVK{Group: "thing.example.com", Version: "v1", Kind: "Thing"}
}

// TestKeepOver ends a process before it is registered, which is no failure.
func TestKeepOver(t *testing.T) {
	client, err := kube.Config{Rest: &rest.Config{Host: "http://127.0.0.1:1"}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r := Registration{Local: true, versions: []schema.GroupVersion{{Group: "led.example.com", Version: "v1"}}}
	s := Server{Client: client, handler: new(atomic.Pointer[http.Handler])}
	if err := r.keep(ctx, s, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil); err != nil {
		t.Error(err)
	}
}

// TestMistakes refuses settings that cannot be right.
func TestMistakes(t *testing.T) {
	d := crd.Of[thing](crd.Options{})
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	s := Server{Client: new(kube.Client), Kinds: []Any{Stored[thing]{Definition: d}}}
	if _, err := s.Objects(manifest.Operator{Name: "test"}); err == nil || !strings.Contains(err.Error(), "name of the Service") {
		t.Errorf("no name of a Service: %v", err)
	}
	s.Registration.Service.Name = "things"
	if objects, err := s.Objects(manifest.Operator{Name: "test"}); err != nil || len(objects) != 2 {
		t.Errorf("%d objects, %v", len(objects), err)
	}
	for want, storage := range map[string]Storage{
		"":             {QuotaBytes: 128 << 20},
		"quota":        {QuotaBytes: 1 << 20},
		"the quota of": {QuotaBytes: -1},
		"8 GiB":        {QuotaBytes: 9 << 30},
		"outside":      {Endpoints: []string{"http://localhost:2379"}, Dir: "data"},
	} {
		if err := storage.validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", storage, err)
		}
	}
	s.Audit = options.NewAuditOptions()
	s.Audit.LogOptions.Path, s.Audit.PolicyFile, s.Audit.LogOptions.MaxAge = "-", "none", -1
	if _, err := s.Objects(manifest.Operator{Name: "test"}); err == nil || !strings.Contains(err.Error(), "maxage") {
		t.Errorf("a negative age: %v", err)
	}
}
