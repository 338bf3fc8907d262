package source

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// A package of the source is found by its import path: below the path of the source's root,
// or in a directory that ends with the whole path.
func TestAt(t *testing.T) {
	for _, c := range []struct {
		path, build, pkg string   // of the type Kind
		files            []string // directory, package, type
		at, name         string
		want             []string
	}{
		{"a.com/m/api/v1", "", "v1", []string{"api/v1 v1 Kind", "other/v1 v1 Kind"},
			"a.com/m/api/v1", "v1", []string{"api/v1"}},
		{"a.com/m/api/v1", "", "v1", []string{"api/v1 v1 Kind", "api/v2 v1 Other"},
			"a.com/m/api/v2", "", []string{"api/v2"}},
		{"a.com/m/api/v1", "", "v1", []string{"api/v1 v1 Kind", "v2 v2 Other"}, "b.com/v2", "", nil},
		{"a.com/m/api/v1", "", "v1", []string{"api/v1 v1 Kind", "vendor/b.com/v2 v2 Other"},
			"b.com/v2", "v2", []string{"vendor/b.com/v2"}},
		{"a.com/m", "", "m", []string{". m Kind", "m m Other"}, "a.com/m", "m", []string{"."}},
		{"a.com/m", "", "m", []string{". m Kind", "m m Other"}, "a.com/m/m", "m", []string{"m"}},
		{"a.com/m_test", "", "m_test", []string{". m_test Kind", ". m Other"}, "a.com/m", "m", []string{"."}},
		{"a.com/m_test", "", "m_test", []string{". m_test Kind", ". m Other"}, "a.com/m", "", []string{"."}},
		{"a.com/x/m_test", "", "m_test", []string{"m m_test Kind", "m m Other", "o o Other"},
			"a.com/x/o", "", []string{"o"}},
		{"a.com/m/api/v1", "", "v1", []string{"mod/a.com/m@v1/api/v1 v1 Kind", "mod/a.com/m@v1/meta/v1 v1 Other"},
			"a.com/m/meta/v1", "", []string{"mod/a.com/m@v1/meta/v1"}},
		{"a.com/m/api/v1", "", "v1", []string{"mod/a.com/m@v1/api/v1 v1 Kind", "mod/b.com/n@v2/v1 v1 Other"},
			"b.com/n/v1", "", []string{"mod/b.com/n@v2/v1"}},
		{"a.com/m/api", "", "api", []string{"x/m/api api Kind", "x/m/meta meta Other"},
			"a.com/m/meta", "", []string{"x/m/meta"}},
		{"a.com/m/api", "", "api", []string{"types api Kind", "types/meta meta Other"},
			"a.com/m/api/meta", "", []string{"types/meta"}},
		{"a.com/m", "", "m", []string{"a.com/m m Kind", "b.com/n n Other"}, "b.com/n", "", []string{"b.com/n"}},
		{"main", "a.com/m/cmd", "main", []string{". main Kind", "api api Other"}, "a.com/m/cmd/api", "", []string{"api"}},
		{"main", "a.com/m/cmd", "main", []string{". main Kind", "api api Other"}, "a.com/m/api", "", nil},
		{"main", "", "main", []string{". main Kind", "api api Other", "x/api api Other"},
			"a.com/m/x/api", "", []string{"x/api"}},
		{"a.com/m/v1", "", "v1", []string{"one v1 Kind", "two v1 Kind"}, "a.com/m/v1", "v1", []string{"one", "two"}},
	} {
		files := fstest.MapFS{}
		for i, file := range c.files {
			dir, text, _ := strings.Cut(file, " ")
			text = "package " + strings.ReplaceAll(text, " ", "\ntype ") + " int\n"
			files[path.Join(dir, fmt.Sprintf("%d.go", i))] = &fstest.MapFile{Data: []byte(text)}
		}
		found, err := Read(files)
		if err != nil {
			t.Fatal(err)
		}
		found.Settle(c.path, cmp.Or(c.build, strings.TrimPrefix(c.path, "main")), c.pkg, "Kind")
		var got []string
		for _, p := range found.At(c.at, c.name) {
			got = append(got, p.Dir)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s with %q: %s %s is in %v, want %v", c.path, c.files, c.name, c.at, got, c.want)
		}
	}
}
