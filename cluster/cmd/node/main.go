// Command node contains the programs of Kubernetes that run on a node, kubelet and
// kube-proxy, in one binary. The cluster command builds it for a real node.
package main

import (
	"context"

	"github.com/spf13/cobra"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/pintle-go/pintle/cluster/internal/multicall"
)

func main() {
	multicall.Main(map[string]func() int{
		"kubelet":    multicall.Command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
		"kube-proxy": multicall.Command(proxy.NewProxyCommand),
	})
}
