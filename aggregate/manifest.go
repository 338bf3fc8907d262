package aggregate

import (
	"cmp"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/manifest"
)

// Rights returns the rights that the server needs in a cluster, for the Needs of a
// [manifest.Bundle]: those of the roles extension-apiserver-authentication-reader and
// system:auth-delegator, those to read what admission needs, to register the server, and to
// read the sources of projections. A server that registers itself by Registration.Local
// needs more: it writes Services, EndpointSlices and APIServices.
func (s Server) Rights() manifest.Rules {
	kind := func(group, version, name, plural string) kube.Kind {
		return kube.Kind{GVK: kube.GVK{Group: group, Version: version, Kind: name}, Plural: plural}
	}
	const admission = "admissionregistration.k8s.io"
	read := []string{"get", "list", "watch"}
	rules := manifest.Rules{
		{
			Kind: kind("", "v1", "ConfigMap", "configmaps"), Verbs: read,
			Names: []string{"extension-apiserver-authentication"}, Namespaces: []string{"kube-system"},
		},
		{Kind: kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews"), Verbs: []string{"create"}},
		{Kind: kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews"), Verbs: []string{"create"}},
		{Kind: kind("", "v1", "Namespace", "namespaces"), Verbs: read},
		{Kind: kind(admission, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"), Verbs: read},
		{Kind: kind(admission, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"), Verbs: read},
		{Kind: kind(admission, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"), Verbs: read},
		{Kind: kind(admission, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"), Verbs: read},
		{Kind: kind(admission, "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies"), Verbs: read},
		{Kind: kind(admission, "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"), Verbs: read},
	}
	registered := manifest.Rule{Kind: kind("apiregistration.k8s.io", "v1", "APIService", "apiservices"), Verbs: []string{"patch"}}
	all, err := s.resources()
	if err != nil {
		return rules // Run and Objects return the error
	}
	for _, r := range all {
		if r.source != nil {
			rules = append(rules, manifest.Rule{Kind: r.of, Verbs: []string{"list", "watch"}})
		}
	}
	for _, service := range s.Registration.complete(s.Client, all, nil).services(nil) {
		registered.Names = append(registered.Names, service.Name)
	}
	return append(rules, registered)
}

// Objects returns the objects by which kube-apiserver reaches the server in a cluster, for
// the Objects of a [manifest.Bundle]: the Service of the Registration, in front of the
// bundle's pods, and an APIService for each version. The APIServices have no caBundle: the
// server adds it when it runs.
func (s Server) Objects(b manifest.Bundle) ([]any, error) {
	_, text, err := net.SplitHostPort(cmp.Or(s.Address, ":8443"))
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("read the address of the API server: %q is no port for a Service", text)
	}
	s.Registration.Local, s.Registration.Service.Namespace = false, b.Namespace
	services, err := s.APIServices()
	if err != nil {
		return nil, err
	}
	front := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}}
	front.Name, front.Namespace, front.Labels = s.Registration.Service.Name, b.Namespace, b.Labels()
	front.Spec.Selector = b.Labels()
	front.Spec.Ports = []corev1.ServicePort{{
		Name: "api", Port: cmp.Or(s.Registration.Port, 443), TargetPort: intstr.FromInt32(int32(port)),
	}}
	objects := []any{front}
	for _, service := range services {
		service.TypeMeta = metav1.TypeMeta{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"}
		service.Labels = b.Labels()
		objects = append(objects, service)
	}
	return objects, nil
}
