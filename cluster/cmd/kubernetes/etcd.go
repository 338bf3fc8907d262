package main

import (
	"os"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// runEtcd runs etcd with its own flags. Variables of the environment, which etcd would
// read as flags too, are meant for other etcds of this user.
func runEtcd() int {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "ETCD_") {
			_ = os.Unsetenv(name) // it fails only for names that the environment cannot contain
		}
	}
	etcdmain.Main(os.Args) // a signal ends the process
	return 0
}
