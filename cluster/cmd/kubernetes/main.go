package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	"go.etcd.io/etcd/server/v3/embed"
	"context"
)

func main() {
	_ = embed.NewConfig()
	var c *cobra.Command
	switch filepath.Base(os.Args[0]) {
	case "kube-apiserver":
		c = apiserver.NewAPIServerCommand()
	case "kcm":
		c = controllermanager.NewControllerManagerCommand()
	case "sched":
		c = scheduler.NewSchedulerCommand()
	case "kubelet":
		c = kubelet.NewKubeletCommand(context.Background())
	case "proxy":
		c = proxy.NewProxyCommand()
	default:
		c = cmd.NewDefaultKubectlCommand()
	}
	os.Exit(cli.Run(c))
}
