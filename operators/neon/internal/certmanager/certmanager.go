// Package certmanager has the part of cert-manager's API by which the operator asks for the
// certificates of servers: https://cert-manager.io/docs/reference/api-docs.
package certmanager

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// Certificate is a Certificate of cert-manager.
type Certificate struct {
	kube.Object
	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// GVK returns the kind.
func (Certificate) GVK() kube.GVK {
	return kube.GVK{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
}

// All returns the Certificates of all namespaces. The plural is named here, because the manifests are
// printed without a cluster that knows it.
func All(client *kube.Client) kube.Resource[Certificate] {
	return kube.For[Certificate](client, kube.Kind{Plural: "certificates", Scope: kube.Namespaced})
}

// Spec says which certificate is wanted.
type Spec struct {
	SecretName string     `json:"secretName"`
	DNSNames   []string   `json:"dnsNames"`
	IssuerRef  IssuerRef  `json:"issuerRef"`
	PrivateKey PrivateKey `json:"privateKey"`
	Usages     []string   `json:"usages"`
	// SecretTemplate is about the Secret that is made.
	SecretTemplate SecretTemplate `json:"secretTemplate"`
}

// IssuerRef names the issuer.
type IssuerRef struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// PrivateKey says which key is made.
type PrivateKey struct {
	Algorithm      string `json:"algorithm"`
	Encoding       string `json:"encoding"`
	Size           int32  `json:"size"`
	RotationPolicy string `json:"rotationPolicy"`
}

// SecretTemplate has metadata of a Secret.
type SecretTemplate struct {
	Labels map[string]string `json:"labels"`
}

// Status is what cert-manager says.
type Status struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Revision counts the certificates that were issued.
	Revision int32 `json:"revision,omitempty"`
}

// IssuedLabel is on the Secrets that cert-manager makes, beside the labels of the server.
const IssuedLabel = "neon.pintle.dev/issued"

// SecretName returns the name of the Secret that cert-manager makes for a server.
func SecretName(server string) string { return server + "-issued" }

// New returns the Certificate of a server. Its key has the only form that computes read, besides
// Ed25519: see package trust.
func New(server metav1.ObjectMeta, names []string, by api.Issuer) *Certificate {
	labels := maps.Clone(server.Labels)
	labels[IssuedLabel] = "true"
	return &Certificate{Object: kube.Object{ObjectMeta: server}, Spec: Spec{
		SecretName: SecretName(server.Name), DNSNames: names,
		IssuerRef:  IssuerRef{Group: "cert-manager.io", Kind: by.Kind, Name: by.Name},
		PrivateKey: PrivateKey{Algorithm: "ECDSA", Encoding: "PKCS1", Size: 256, RotationPolicy: "Always"},
		Usages:     []string{"digital signature", "server auth"}, SecretTemplate: SecretTemplate{labels},
	}}
}
