package main

import (
	"strings"
	"testing"
)

const ginkgoReport = `[{"SuiteDescription": "Cache Suite", "SpecReports": [
	{"LeafNodeType": "BeforeSuite", "State": "passed"},
	{"ContainerHierarchyTexts": ["Cache", "List"], "LeafNodeText": "lists pods", "LeafNodeType": "It", "State": "passed"},
	{"ContainerHierarchyTexts": ["Cache"], "LeafNodeText": "sleeps", "LeafNodeType": "It", "State": "skipped"},
	{"ContainerHierarchyTexts": null, "LeafNodeText": "is not written yet", "LeafNodeType": "It", "State": "pending"},
	{"ContainerHierarchyTexts": ["Cache"], "LeafNodeText": "ends", "LeafNodeType": "It", "State": "panicked"}]}]`

func TestCountSpecs(t *testing.T) {
	specs, err := readSpecs([]byte(ginkgoReport))
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := (ginkgoSuite{pkg: "pkg/cache", without: []exclusion{{"Cache sleeps", "it sleeps"}}}).count(
		specs, &r,
	); err != nil {
		t.Error(err)
	}
	if want := (result{passed: 1, failed: 1, skipped: 2}); r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
	err = (ginkgoSuite{pkg: "pkg/cache", without: []exclusion{{"Cache flies", "it flies"}}}).count(specs, &r)
	if err == nil || !strings.Contains(err.Error(), "Cache flies") {
		t.Errorf("an exclusion without a spec: %v", err)
	}
}

func TestTable(t *testing.T) {
	s := suites{results: []result{{step: "envtest", what: "pkg/client", passed: 3, skipped: 1}}}
	var out strings.Builder
	if err := s.table(&out); err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(out.String(), "\nsuites: 3 passed, 0 failed, 1 skipped\n") {
		t.Errorf("table:\n%s", &out)
	}
	s.results = append(s.results, result{step: "envtest", what: "pkg/cache"})
	if err := s.table(&out); err == nil || !strings.Contains(err.Error(), "pkg/cache") {
		t.Errorf("a package without a passed test: %v", err)
	}
}

// A test with subtests is not counted, but its subtests are.
func TestHasSubtest(t *testing.T) {
	all := map[string]string{"TestA": "pass", "TestA/x": "pass", "TestAB": "pass"}
	for name, want := range map[string]bool{"TestA": true, "TestA/x": false, "TestAB": false} {
		if got := hasSubtest(all, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
