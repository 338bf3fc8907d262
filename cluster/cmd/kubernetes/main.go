// Command kubernetes contains the programs of a control plane in one binary:
//
//	kubernetes kube-apiserver --flag …
//
// It also acts as a program if it is started under the program's name (for example
// through a link named etcd). The flags are the programs' own, of etcd the most common
// ones. The cluster command builds it and starts it. Only these programs belong here: each
// further one would be built for every test.
package main

import (
	_ "time/tzdata" // schedules of CronJobs name time zones

	"github.com/spf13/cobra"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/pintle-go/pintle/cluster/internal/multicall"
)

func main() {
	multicall.Main(map[string]func() int{
		"etcd":                    runEtcd,
		"kube-apiserver":          multicall.Command(apiserver.NewAPIServerCommand),
		"kube-controller-manager": multicall.Command(controllermanager.NewControllerManagerCommand),
		"kube-scheduler":          multicall.Command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	})
}
