package main

import (
	"slices"
	"strings"
	"testing"
)

const listing = `
{"ImportPath": "fmt", "Standard": true}
{"ImportPath": "k8s.io/client-go/rest"}
{"ImportPath": "k8s.io/client-go/tools/cache"}
{"ImportPath": "github.com/pintle-go/pintle/kube", "Deps": ["fmt", "k8s.io/client-go/rest"]}
{"ImportPath": "github.com/pintle-go/pintle/extra", "Deps": [
	"fmt", "github.com/pintle-go/pintle/kube", "k8s.io/client-go/rest", "k8s.io/client-go/tools/cache"]}
`

func TestClosure(t *testing.T) {
	c, err := readClosure(strings.NewReader(listing))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"k8s.io/client-go/rest: extra kube", "k8s.io/client-go/tools/cache: extra"}
	got := describeClosure(c)[1:]
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	err = checkForbidden(c)
	if err == nil || !strings.Contains(err.Error(), "k8s.io/client-go/tools/cache") ||
		!strings.Contains(err.Error(), "but extra needs it") {
		t.Errorf("got %v, want an error that names tools/cache and extra", err)
	}
	delete(c, "k8s.io/client-go/tools/cache")
	if err := checkForbidden(c); err != nil {
		t.Errorf("without it: %v", err)
	}
}
