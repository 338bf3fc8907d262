package fieldmanager

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for pkg, want := range map[string]string{
		"example.com/echo":                                "echo",
		"example.com/echo/v2":                             "echo",
		"example.com/echo/v12":                            "echo",
		"example.com/web-operator/cmd":                    "web-operator",
		"example.com/web-operator/cmd/manager":            "web-operator",
		"example.com/web-operator/v3/cmd/main":            "web-operator",
		"example.com/web/app/controller/operator/bin/cmd": "web",
		"example.com/tools/cmd/web":                       "web",
		"example.com/tools/v1":                            "v1", // no module has the suffix v1
		"example.com/tools/v2x":                           "v2x",
		"web/cmd":                                         "web",
		"example.com/web/cmd.test":                        "web",
		"example.com/web/internal/page.test":              "page",
		"example.com/cmd":                                 "", // other programs may have this path
		"manager":                                         "",
		"v2":                                              "",
		"command-line-arguments":                          "", // go run main.go
		"command-line-arguments.test":                     "",
		"":                                                "",
	} {
		got, err := of(pkg)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", pkg, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "set FieldManager of kube.Config") {
			t.Errorf("%q: the error does not name the remedy: %v", pkg, err)
		}
	}
}

// The name of the file does not count: that of this test ends with .test.
func TestDefault(t *testing.T) {
	if got, err := Default(); got != "fieldmanager" || err != nil {
		t.Errorf("got %q, %v, want fieldmanager", got, err)
	}
}

func TestAgree(t *testing.T) {
	for _, c := range []struct {
		operator, manager string
		want              bool
	}{
		{"web", "web", true},
		{"web-operator", "web", true},
		{"web-controller", "web", true},
		{"web", "web-operator", false},
		{"web-shop", "web", false},
		{"web-app", "web", false},
		{"weboperator", "web", false},
		{"web-", "web", false},
		{"web-operator", "", false},
		{"shop", "web", false},
	} {
		if got := Agree(c.operator, c.manager); got != c.want {
			t.Errorf("operator %q and field manager %q: got %t", c.operator, c.manager, got)
		}
	}
}
