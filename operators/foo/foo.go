package main

import "github.com/pintle-go/pintle/kube"

// Foo is a name with some information about it.
type Foo struct {
	kube.Object
	Spec FooSpec `json:"spec"`
}

// FooSpec is the content of a Foo.
type FooSpec struct {
	Name string `json:"name"`
	Info string `json:"info"`
}

// GVK returns the kind.
func (Foo) GVK() kube.GVK { return kube.GVK{Group: "clux.dev", Version: "v1", Kind: "Foo"} }

// fooKind avoids the request that asks the server for plural and scope.
var fooKind = kube.Kind{Plural: "foos", Scope: kube.Namespaced}
