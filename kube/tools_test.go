package kube

import (
	_ "github.com/go-json-experiment/json"
	_ "go.uber.org/goleak"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/client-go/rest"
	_ "k8s.io/client-go/tools/clientcmd"
	_ "pgregory.net/rapid"
)
