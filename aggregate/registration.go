package aggregate

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/kube"
)

// Registration tells kube-apiserver which groups and versions the server has, by an
// APIService for each. kube-apiserver always checks the server's certificate.
type Registration struct {
	// Service is the Service in front of the server. The certificate must be valid for
	// NAME.NAMESPACE.svc. If the name is empty, nothing is registered, unless Local is set.
	Service kube.Key
	// Port is the port of the Service. Default: 443.
	Port int32
	// Local registers this process while it runs, in place of a server in the cluster: for
	// the machine of a developer. It makes a Service of its own that leads to the
	// listener, and removes it at the end. A listener on a loopback address can be reached if
	// kube-apiserver runs on the same machine without --enable-aggregator-routing, as that
	// of a local cluster without real nodes does. Another address must be one that
	// kube-apiserver can connect to.
	Local bool

	listener net.Addr
	versions []schema.GroupVersion
}

// complete fills in the defaults.
func (r Registration) complete(client *kube.Client, all kinds, listener net.Addr) Registration {
	r.listener = listener
	for _, group := range all.groups() {
		for _, version := range all.versions(group) {
			r.versions = append(r.versions, schema.GroupVersion{Group: group, Version: version})
		}
	}
	if r.Local {
		if r.Service.Name == "" {
			r.Service.Name = strings.ReplaceAll(r.versions[0].Group, ".", "-")
		}
		r.Service.Name += "-local"
		r.Port = port(listener)
	}
	if r.Service.Name != "" && r.Service.Namespace == "" {
		r.Service.Namespace = client.Namespace()
	}
	if r.Port == 0 {
		r.Port = 443
	}
	return r
}

func port(a net.Addr) int32 {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return int32(tcp.Port)
	}
	return 0
}

// host returns the name by which kube-apiserver calls the server.
func (r Registration) host() string {
	if r.Service.Name == "" {
		return ""
	}
	return r.Service.Name + "." + r.Service.Namespace + ".svc"
}

// looks is how often the registration looks for a new bundle, and repeats how often it
// restores an APIService that somebody may have changed.
const (
	looks   = 5 * time.Second
	repeats = time.Minute
)

// keep registers the server when it is ready, and keeps the registration right until ctx
// ends.
func (r Registration) keep(ctx context.Context, client *kube.Client, ready func() error, bundle func() []byte, log *slog.Logger) error {
	if r.Service.Name == "" {
		return nil
	}
	// kube-apiserver waits five seconds before it tries again a server that did not answer.
	for ready() != nil {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
	services := kube.For[APIService](client)
	if r.Local {
		undo, err := r.lead(ctx, client)
		if err != nil {
			return err
		}
		defer undo()
	}
	var sent []byte
	var at time.Time
	for {
		var current []byte
		if bundle != nil {
			current = bundle()
		}
		if at.IsZero() || !bytes.Equal(current, sent) || time.Since(at) > repeats {
			err := r.register(ctx, services, current)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil && at.IsZero():
				return err
			case err != nil:
				log.Error("cannot keep the APIServices right", "error", err)
			case at.IsZero():
				log.Info("the API server is registered", "service", r.Service.String(), "versions", fmt.Sprint(r.versions))
			}
			sent, at = current, time.Now()
		}
		select {
		case <-time.After(looks):
		case <-ctx.Done():
			return nil
		}
	}
}

// register applies an APIService for each group and version.
func (r Registration) register(ctx context.Context, services kube.Resource[APIService], bundle []byte) error {
	for _, s := range r.services(bundle) {
		if _, err := services.Apply(ctx, s); err != nil {
			return fmt.Errorf("register %s: %w", s.Name, err)
		}
	}
	return nil
}

// services returns the APIServices.
func (r Registration) services(bundle []byte) []*APIService {
	var all []*APIService
	for i, gv := range r.versions {
		s := new(APIService)
		s.Name = gv.Version + "." + gv.Group
		s.Spec = APIServiceSpec{
			Group: gv.Group, Version: gv.Version, CABundle: bundle,
			Service: &ServiceReference{Namespace: r.Service.Namespace, Name: r.Service.Name, Port: r.Port},
			// The priorities of kinds with a definition.
			GroupPriorityMinimum: 1000, VersionPriority: int32(100 - i%100),
		}
		all = append(all, s)
	}
	return all
}

// APIServices returns the objects by which kube-apiserver finds the server, for its
// manifests. They have no caBundle, which is not known before certificates are made.
func (s Server) APIServices() ([]*APIService, error) {
	all, err := s.resources()
	if err != nil {
		return nil, err
	}
	return s.Registration.complete(s.Client, all, nil).services(nil), nil
}

// lead makes the Service that leads to this process. undo puts things back.
func (r Registration) lead(ctx context.Context, client *kube.Client) (undo func(), err error) {
	service, slices := kube.For[corev1.Service](client).In(r.Service.Namespace), kube.For[discoveryv1.EndpointSlice](client).In(r.Service.Namespace)
	own := new(corev1.Service)
	own.Name, own.Namespace = r.Service.Name, r.Service.Namespace
	tcp, ok := r.listener.(*net.TCPAddr)
	switch {
	case !ok:
		return nil, fmt.Errorf("register this process: it listens on %s, not on TCP", r.listener)
	case tcp.IP.IsLoopback():
		own.Spec.Type, own.Spec.ExternalName = corev1.ServiceTypeExternalName, "localhost"
	case tcp.IP.IsUnspecified():
		return nil, fmt.Errorf("register this process: it listens on %s; choose one address that kube-apiserver can connect to", r.listener)
	default:
		own.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: r.Port}}
	}
	if _, err := service.Apply(ctx, own); err != nil {
		return nil, fmt.Errorf("register this process: %w", err)
	}
	if own.Spec.ExternalName == "" {
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
		if tcp.IP.To4() == nil {
			slice.AddressType = discoveryv1.AddressTypeIPv6
		}
		slice.Name, slice.Namespace = r.Service.Name, r.Service.Namespace
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: r.Service.Name}
		name := "https"
		slice.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &r.Port}}
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{tcp.IP.String()}}}
		if _, err := slices.Apply(ctx, slice); err != nil {
			return nil, fmt.Errorf("register this process: %w", err)
		}
	}
	all := kube.For[APIService](client)
	former := map[string]*APIService{}
	for _, s := range r.services(nil) {
		was, err := all.Get(ctx, s.Name)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("register this process: %w", err)
		case was.Spec.Service != nil && was.Spec.Service.Name == r.Service.Name && was.Spec.Service.Namespace == r.Service.Namespace:
			// A process that was killed has left it.
		default:
			former[s.Name] = was
		}
	}
	return func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer stop()
		for _, s := range r.services(nil) {
			if was := former[s.Name]; was != nil {
				_, _ = all.Modify(ctx, s.Name, func(now *APIService) error { now.Spec = was.Spec; return nil })
			} else {
				_ = all.Delete(ctx, s.Name)
			}
		}
		_ = service.Delete(ctx, own.Name)
		if own.Spec.ExternalName == "" {
			_ = slices.Delete(ctx, own.Name)
		}
	}, nil
}

// An APIService tells kube-apiserver which server has a group and version.
type APIService struct {
	kube.Object
	Spec   APIServiceSpec   `json:"spec"`
	Status APIServiceStatus `json:"status,omitzero"`
}

// GVK names the kind.
func (APIService) GVK() kube.GVK {
	return kube.GVK{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
}

// APIServiceSpec has the fields of apiregistration.k8s.io/v1 but insecureSkipTLSVerify.
type APIServiceSpec struct {
	Group                string            `json:"group"`
	Version              string            `json:"version"`
	Service              *ServiceReference `json:"service,omitempty"`
	CABundle             []byte            `json:"caBundle,omitempty"`
	GroupPriorityMinimum int32             `json:"groupPriorityMinimum"`
	VersionPriority      int32             `json:"versionPriority"`
}

// ServiceReference names a Service and its port.
type ServiceReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Port      int32  `json:"port,omitempty"`
}

// APIServiceStatus is kube-apiserver's view of the server.
type APIServiceStatus struct {
	Conditions []APIServiceCondition `json:"conditions,omitempty"`
}

// APIServiceCondition is Available.
type APIServiceCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}
