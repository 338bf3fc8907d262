package main

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func TestReadSoak(t *testing.T) {
	source := `package p

func TestShort(t *testing.T)     {}
func TestSoakLong(t *testing.T)  {}
func TestModel(t *testing.T)     { t.Run("x", func(t *testing.T) { rapid.Check(t, nil) }) }
func TestHistories(t *testing.T) { bubble.Check(t, 1, nil) }
func (s *suite) TestMethod()     { rapid.Check(nil, nil) }
func FuzzParse(f *testing.F)     {}
func checkAll(t *testing.T)      { rapid.Check(t, nil) }
`
	dir := write(t, map[string]string{"a_test.go": source, "a.go": "package p\n\nfunc TestSoakOfNothing() {}\n"})
	got, err := readSoak("p", dir)
	if err != nil {
		t.Fatal(err)
	}
	want := soak{
		pkg: "p", tests: []string{"TestSoakLong"}, models: []string{"TestModel", "TestHistories"},
		fuzz: []string{"FuzzParse"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
}

// The repository's own long tests are found, and the order depends on the seed only.
func TestSoakParts(t *testing.T) {
	repo, err := FindRepo(".")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := findSoaks(repo)
	if err != nil {
		t.Fatal(err)
	}
	names := func(seed uint64) (all []string) {
		for _, p := range soakParts(packages, true, rand.New(rand.NewPCG(seed, 0))) {
			all = append(all, p.name)
		}
		return all
	}
	for _, want := range []string{
		"TestSoakChaos of kube", "suites: kube-rs",
		"FuzzListJSON of kube/internal/wire", "TestQueueModel of controller, 1000 checks",
	} {
		if !slices.Contains(names(1), want) {
			t.Errorf("%q is not found among %q", want, names(1))
		}
	}
	if !slices.Equal(names(1), names(1)) || slices.Equal(names(1), names(2)) {
		t.Error("the order does not depend on the seed only")
	}
}
