module github.com/pintle-go/pintle/aggregate

go 1.26.0

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3
	github.com/google/uuid v1.6.0
	github.com/pintle-go/pintle v0.1.0
	go.etcd.io/etcd/server/v3 v3.6.8
	go.uber.org/goleak v1.3.0
	go.uber.org/zap v1.27.1
	k8s.io/api v0.36.3
	k8s.io/apiextensions-apiserver v0.36.3
	k8s.io/apimachinery v0.36.3
	k8s.io/apiserver v0.36.3
	k8s.io/client-go v0.36.3
	k8s.io/component-base v0.36.3
	k8s.io/kube-openapi v0.0.0-20260721132016-d427ff9ee9ad
)
