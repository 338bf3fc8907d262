package main

// strangerTest is a test as a user of package kubetest writes it. The ConfigMap has the
// name of its namespace, so the test cannot find an object from an earlier test.
const strangerTest = `package stranger

import (
	"testing"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	corev1 "k8s.io/api/core/v1"
)

func TestCluster(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	client, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace(t)
	maps := kube.For[corev1.ConfigMap](client).In(namespace)
	written := &corev1.ConfigMap{Data: map[string]string{"from": "a stranger"}}
	written.Name = namespace
	if _, err := maps.Create(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	read, err := maps.Get(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	if read.Data["from"] != "a stranger" {
		t.Errorf("read %v", read.Data)
	}
}
`
