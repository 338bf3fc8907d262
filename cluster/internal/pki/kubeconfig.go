package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// A Kubeconfig describes the way of one client to the API server.
type Kubeconfig struct {
	Name      string // of the cluster and the context
	User      string // of the user entry
	Server    string // https://host:port
	Authority *Authority
	Client    Pair
}

// Write writes a self-contained kubeconfig: certificates and key are inside, so the file
// may be copied anywhere. Its mode is 0600.
func (k Kubeconfig) Write(file string) error {
	cert, err := os.ReadFile(k.Client.CertFile)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	key, err := os.ReadFile(k.Client.KeyFile)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	data, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{
			k.Name: {Server: k.Server, CertificateAuthorityData: k.Authority.PEM()},
		},
		AuthInfos: map[string]*api.AuthInfo{
			k.User: {ClientCertificateData: cert, ClientKeyData: key},
		},
		Contexts: map[string]*api.Context{
			k.Name: {Cluster: k.Name, AuthInfo: k.User},
		},
		CurrentContext: k.Name,
	})
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	return WriteFile(file, data, 0o600)
}
