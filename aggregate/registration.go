package aggregate

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/pintle-go/pintle/kube"
)

// Registration says how kube-apiserver finds the server. kube-apiserver always checks the server's
// certificate.
type Registration struct {
	// Service is the Service in front of the server in a cluster, where the APIServices of
	// Objects lead to it. The certificate must be valid for NAME.NAMESPACE.svc.
	Service kube.Key
	// Local registers this process while it runs, in place of a server in the cluster: for
	// the machine of a developer. It makes a Service of its own that leads to the
	// listener, and removes it at the end. A listener on a loopback address can be reached if
	// kube-apiserver runs on the same machine without --enable-aggregator-routing, as that
	// of a local cluster without real nodes does. Another address must be one that
	// kube-apiserver can connect to. Somebody else who writes the APIServices meanwhile ends it: start
	// the process again then. If the process is killed, the registration stays. The
	// next process removes it, and does not know of a server in the cluster: apply the
	// manifests of that one again.
	Local bool

	port     int32 // of the Service
	versions []schema.GroupVersion
}

// servicePort is the port of the Service in a cluster.
const servicePort = 443

// complete fills in the defaults.
func (r Registration) complete(client *kube.Client, all kinds) Registration {
	for _, v := range all.served() {
		r.versions = append(r.versions, v.GroupVersion)
	}
	r.port = servicePort
	if r.Local {
		r.Service.Name = cmp.Or(r.Service.Name, strings.ReplaceAll(r.versions[0].Group, ".", "-")) + "-local"
	}
	r.Service.Namespace = cmp.Or(r.Service.Namespace, client.Namespace())
	return r
}

// registered lists the kind of APIServices.
var registered = kube.Kind{AddToScheme: apiregistrationv1.AddToScheme, Plural: "apiservices", Scope: kube.ClusterScoped}

// keep registers this process when it is ready, until ctx ends.
func (r Registration) keep(ctx context.Context, s Server, at *net.TCPAddr, bundle []byte) error {
	if !r.Local {
		return nil
	}
	// kube-apiserver waits five seconds before it tries again a server that did not answer.
	for s.ready(ctx) != nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	r.port = int32(at.Port)
	undo, err := r.lead(ctx, s.Client, at.IP, bundle)
	if err != nil {
		return unlessOver(ctx, fmt.Errorf("register this process: %w", err))
	}
	defer undo()
	s.Logger.Info("the API server is registered", "service", r.Service.String(), "versions", fmt.Sprint(r.versions))
	<-ctx.Done()
	return nil
}

// services returns the APIServices.
func (r Registration) services(bundle []byte) []*apiregistrationv1.APIService {
	var all []*apiregistrationv1.APIService
	for i, gv := range r.versions {
		s := new(apiregistrationv1.APIService)
		s.Name = gv.Version + "." + gv.Group
		s.Spec = apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, CABundle: bundle,
			Service: &apiregistrationv1.ServiceReference{Namespace: r.Service.Namespace, Name: r.Service.Name, Port: &r.port},
			// The priorities of kinds with a definition.
			GroupPriorityMinimum: 1000, VersionPriority: int32(100 - i%100),
		}
		all = append(all, s)
	}
	return all
}

// lead makes the Service that leads to this process at an address, and the APIServices that lead to the
// Service. The result puts things back.
func (r Registration) lead(ctx context.Context, client *kube.Client, ip net.IP, bundle []byte) (func(), error) {
	if ip.IsUnspecified() {
		return nil, fmt.Errorf("it listens on %s; choose one address that kube-apiserver can connect to", ip)
	}
	all := kube.For[apiregistrationv1.APIService](client, registered)
	former := map[string]*apiregistrationv1.APIService{}
	for _, s := range r.services(nil) {
		was, err := all.Get(ctx, s.Name)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		case !r.led(was):
			former[s.Name] = was // the others were left by a process that was killed
		}
	}
	services := kube.For[corev1.Service](client).In(r.Service.Namespace)
	endpoints := kube.For[discoveryv1.EndpointSlice](client).In(r.Service.Namespace)
	undo := func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer stop()
		for _, s := range r.services(nil) {
			if was := former[s.Name]; was == nil {
				_ = all.Delete(ctx, s.Name)
			} else {
				_, _ = all.Modify(ctx, s.Name, func(now *apiregistrationv1.APIService) error {
					now.Spec = was.Spec
					return nil
				})
			}
		}
		_ = services.Delete(ctx, r.Service.Name)
		_ = endpoints.Delete(ctx, r.Service.Name)
	}
	service, slice := r.front(ip)
	_, err := services.Apply(ctx, service)
	if err == nil && slice != nil {
		_, err = endpoints.Apply(ctx, slice)
	}
	for _, s := range r.services(bundle) {
		if err == nil {
			_, err = all.Apply(ctx, s)
		}
	}
	if err != nil {
		undo() // a request that failed may have had its effect
		return nil, err
	}
	return undo, nil
}

// led reports whether an APIService leads to the Service.
func (r Registration) led(s *apiregistrationv1.APIService) bool {
	to := s.Spec.Service
	return to != nil && r.Service == (kube.Key{Namespace: to.Namespace, Name: to.Name})
}

// front returns a Service that leads to an address. No EndpointSlice can contain a loopback address, so
// the Service is another name of it then.
func (r Registration) front(ip net.IP) (*corev1.Service, *discoveryv1.EndpointSlice) {
	service, slice, port := new(corev1.Service), new(discoveryv1.EndpointSlice), "https"
	service.Name, service.Namespace = r.Service.Name, r.Service.Namespace
	if ip.IsLoopback() {
		service.Spec.Type, service.Spec.ExternalName = corev1.ServiceTypeExternalName, "localhost"
		return service, nil
	}
	service.Spec.Ports = []corev1.ServicePort{{Name: port, Port: r.port}}
	slice.Name, slice.Namespace = r.Service.Name, r.Service.Namespace
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: r.Service.Name}
	slice.AddressType = discoveryv1.AddressTypeIPv4
	if ip.To4() == nil {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	slice.Ports = []discoveryv1.EndpointPort{{Name: &port, Port: &r.port}}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{ip.String()}}}
	return service, slice
}
