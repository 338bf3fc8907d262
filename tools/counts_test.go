package main

import (
	"slices"
	"testing"
)

func TestReadCounts(t *testing.T) {
	tests := map[string]struct {
		text     string
		counted  []counted
		unmarked []string
	}{
		"with a comment":     {"has <!-- count lines a/b.go -->31 lines", []counted{{"lines a/b.go", "31"}}, nil},
		"a release":          {"Go <!-- count go -->1.26.", []counted{{"go", "1.26"}}, nil},
		"without a comment":  {"has 31 lines", nil, []string{"31"}},
		"another after it":   {"<!-- count go -->1.26 and 1.27", []counted{{"go", "1.26"}}, []string{"1.27"}},
		"in code":            {"`v1` and\n```go\nx := 2\n```\n", nil, nil},
		"in a link":          {"[x](a1.md)", nil, nil},
		"in a list":          {"1. one\n2. two\n", nil, nil},
		"among figures":      {"<!-- bench-quick -->\n| 75 MB |\n<!-- /bench-quick -->\n", nil, nil},
		"after the figures":  {"<!-- bench-quick -->\n75\n<!-- /bench-quick -->\n76", nil, []string{"76"}},
		"in another comment": {"<!-- snippet: run 3 -->", nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			counted, unmarked := readCounts(test.text)
			if !slices.Equal(counted, test.counted) || !slices.Equal(unmarked, test.unmarked) {
				t.Errorf("got %v and %v, want %v and %v", counted, unmarked, test.counted, test.unmarked)
			}
		})
	}
}

func TestCount(t *testing.T) {
	repo := &Repo{Dir: write(t, map[string]string{
		"go.mod":                          "module x\n\ngo 1.26.0\n\nrequire k8s.io/api v0.36.3\n",
		"cluster/go.mod":                  "require (\n\tk8s.io/kubernetes v1.36.3\n)\n",
		"tools/stranger.go":               "\tnewerKubernetes = \"v0.37.2\"\n",
		"operators/internal/ship/ship.go": "\tmaxImage  = 7*mega - 1\n",
		"a/main.go": "package main\n\nimport (\n\t\"fmt\"\n)\n\n// comment\n//\n//go:generate x\n/* more\n\n*/\nfunc main() {\n\n" +
			"\tfmt.Println(`one\n\ntwo`) // said\n}\n",
	})}
	for what, want := range map[string]string{
		"lines a/main.go": "5", "go": "1.26", "kubernetes": "1.36.3", "low": "0.36", "high": "0.37", "image": "7",
	} {
		if got, err := repo.count(t.Context(), what); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", what, got, err, want)
		}
	}
	for _, what := range []string{"lines gone.go", "stars"} {
		if got, err := repo.count(t.Context(), what); err == nil {
			t.Errorf("%s: got %s", what, got)
		}
	}
}
