package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestPackages(t *testing.T) {
	packages, err := readPackages(strings.NewReader(`
{"ImportPath": "m/cmd", "Deps": ["k8s.io/kubernetes/cmd/kubelet/app"]}
{"ImportPath": "m/light", "Deps": ["fmt"]}
{"ImportPath": "m/light.test", "Deps": ["fmt", "m/light"]}
{"ImportPath": "m/tested", "Deps": ["fmt"]}
{"ImportPath": "m/tested [m/tested.test]", "ForTest": "m/tested", "Deps": ["fmt", "k8s.io/kubernetes/pkg/apis"]}
{"ImportPath": "m/untested", "Deps": ["fmt"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range packages {
		got = append(got, fmt.Sprintf("%s tested=%v heavy=%v", p.path, p.tested, p.heavy))
	}
	want := []string{
		"m/cmd tested=false heavy=true", "m/light tested=true heavy=false",
		"m/tested tested=true heavy=true", "m/untested tested=false heavy=false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
