// Command kubernetes contains every program of a cluster in one binary:
//
//	kubernetes kube-apiserver --flag …
//	kubernetes kubectl get pods
//
// It also acts as a component if it is started under the component's name (for example
// through a link named kubectl). The flags are the components' own, of etcd the most
// common ones. The cluster command builds it and starts it. Only the components
// themselves belong here, because linking it takes half a minute.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // schedules of CronJobs name time zones

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/pintle-go/pintle/cluster/internal/lifeline"
)

// components maps each name to the function that runs it. The function's arguments are
// os.Args[1:], and it returns the exit status.
func components() map[string]func() int {
	return map[string]func() int{
		"etcd":                    runEtcd,
		"kube-apiserver":          command(apiserver.NewAPIServerCommand),
		"kube-controller-manager": command(controllermanager.NewControllerManagerCommand),
		"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
		"kube-proxy":              command(proxy.NewProxyCommand),
		"kubectl":                 runKubectl,
	}
}

func main() {
	lifeline.Watch()
	all := components()
	run, ok := all[filepath.Base(os.Args[0])]
	if !ok && len(os.Args) > 1 {
		// A component then finds its arguments as in a binary of its own.
		os.Args = os.Args[1:]
		run, ok = all[os.Args[0]]
	}
	if !ok {
		names := slices.Sorted(maps.Keys(all))
		fmt.Fprintf(os.Stderr, "usage: kubernetes COMPONENT [arguments]\ncomponents: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

func command(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints the error as kubectl does, and exits
	}
	return 0
}
