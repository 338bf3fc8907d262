package aggregate

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/manifest"
)

// Rights returns the rights that the server needs in a cluster, for the Needs of a
// [manifest.Operator]: those of the roles extension-apiserver-authentication-reader and
// system:auth-delegator, those to read what admission needs, and to read the sources of
// projections. A server that registers itself by Registration.Local
// needs more: it writes Services, EndpointSlices and APIServices.
func (s Server) Rights() manifest.Rules {
	of := func(kind kube.Kind) kube.AnyHandle { return kube.ViewOf[kube.Object](s.Client, kind) }
	read := func(objects kube.AnyHandle) manifest.Rules {
		return append(manifest.Gets(objects), manifest.Watches(objects)...)
	}
	trust := kube.For[corev1.ConfigMap](s.Client).In(trustNamespace)
	quotas := of(kube.KindOf[corev1.ResourceQuota]())
	rules := slices.Concat(
		manifest.Creates(
			of(kube.KindOf[authenticationv1.TokenReview]()), of(kube.KindOf[authorizationv1.SubjectAccessReview]()),
		),
		read(trust).Named(trustName),
		read(of(kube.KindOf[corev1.Namespace]())),
		manifest.Uses(quotas, "status", "update"),
		manifest.Watches(
			quotas,
			of(kube.KindOf[admissionregistrationv1.MutatingWebhookConfiguration]()),
			of(kube.KindOf[admissionregistrationv1.ValidatingWebhookConfiguration]()),
			of(kube.KindOf[admissionregistrationv1.MutatingAdmissionPolicy]()),
			of(kube.KindOf[admissionregistrationv1.MutatingAdmissionPolicyBinding]()),
			of(kube.KindOf[admissionregistrationv1.ValidatingAdmissionPolicy]()),
			of(kube.KindOf[admissionregistrationv1.ValidatingAdmissionPolicyBinding]()),
		),
	)
	all, _ := s.resources() // Run and Objects return the error
	for _, r := range all {
		if r.source != nil {
			rules = append(rules, read(of(r.of))...)
		}
	}
	return rules
}

// Objects returns the objects by which kube-apiserver reaches the server in a cluster, for
// the Objects of a [manifest.Install]: the Service of the Registration, in front of the
// operator's pods, and an APIService for each version. The APIServices have no caBundle: a
// certificate.Issuer adds it, or the CA injector of cert-manager.
//
// The Service of a single replica leads to its pod before the pod is ready. The Service of
// several replicas leads to those that are ready, so that an update interrupts nothing. Then
// no controller of the program can follow the kinds, unless one replica is ready without it.
func (s Server) Objects(o manifest.Operator) ([]any, error) {
	_, text, err := net.SplitHostPort(cmp.Or(s.Address, ":8443"))
	port, portErr := strconv.ParseUint(text, 10, 16)
	if err != nil || portErr != nil || port == 0 {
		return nil, fmt.Errorf("the address of the API server, %q, has no port for a Service", s.Address)
	}
	s.Registration.Local, s.Registration.Service.Namespace = false, o.Install.Namespace
	all, err := s.resources()
	if err != nil {
		return nil, err
	}
	if s.Registration.Service.Name == "" {
		return nil, errors.New("configure API server: the name of the Service in the Registration is missing")
	}
	front := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}}
	front.Name, front.Namespace, front.Labels = s.Registration.Service.Name, o.Install.Namespace, o.Labels()
	front.Spec.Selector = o.Labels()
	// A pod is ready when its controllers know all objects. If those are of the kinds here,
	// kube-apiserver has to reach the pod before.
	front.Spec.PublishNotReadyAddresses = o.Install.Replicas <= 1
	front.Spec.Ports = []corev1.ServicePort{{
		Name: "api", Port: servicePort, TargetPort: intstr.FromInt32(int32(port)),
	}}
	objects := []any{front}
	for _, service := range s.Registration.complete(s.Client, all).services(nil) {
		service.TypeMeta = metav1.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"}
		service.Labels = o.Labels()
		objects = append(objects, service)
	}
	return objects, nil
}
