package crd_test

import (
	"strings"
	"testing"

	"github.com/pintle-go/pintle/crd"
)

// wrongDefinition is the variable of a program whose type has a wrong tag.
var wrongDefinition = crd.Of[Case[struct {
	A int `json:"a" crd:"mni=0"`
}]](crd.Options{})

// Every use of a definition returns the mistake in its type.
func TestErr(t *testing.T) {
	right := crd.Of[Case[Named]](crd.Options{})
	if right.Err() != nil {
		t.Fatal(right.Err())
	}
	_, yamlErr := wrongDefinition.YAML()
	for use, err := range map[string]error{
		"Err": wrongDefinition.Err(), "YAML": yamlErr,
		"Install": crd.Install(t.Context(), nil, wrongDefinition), "Replace": crd.Replace(t.Context(), nil, wrongDefinition),
		"Join": crd.Join(right, wrongDefinition).Err(), "Join first": crd.Join(wrongDefinition, right).Err(),
		"Join alone": crd.Join(wrongDefinition).Err(),
	} {
		if err == nil || !strings.Contains(err.Error(), "unknown key") {
			t.Errorf("%s: %v", use, err)
		}
	}
	for _, breaks := range [][]string{crd.Compare(right, wrongDefinition), crd.Compare(wrongDefinition, right)} {
		if len(breaks) != 1 || !strings.Contains(breaks[0], "unknown key") {
			t.Errorf("%v", breaks)
		}
	}
}
