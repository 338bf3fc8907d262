// Package fieldmanager finds the name under which this program owns the fields that it
// sets: the default of kube.Config's FieldManager.
package fieldmanager

import (
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// Default returns the name by the main package of this program. The name of the file does
// not count: if a debugger or an image changed it, the fields that the program owns would
// get a second owner.
var Default = sync.OnceValues(func() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return of("")
	}
	return of(info.Path)
})

// common are the elements that the paths of many main packages have.
var common = []string{"app", "bin", "cmd", "controller", "main", "manager", "operator"}

// majorVersion is the last element of the path of a module such as example.com/echo/v2.
var majorVersion = regexp.MustCompile(`^v([2-9]|[1-9][0-9]+)$`)

// Agree reports whether an operator's name and a field manager say the same: web-operator
// is the operator of the field manager web.
func Agree(operator, manager string) bool {
	rest, longer := strings.CutPrefix(operator, manager)
	return longer && slices.Contains([]string{"", "-operator", "-controller", "-manager"}, rest)
}

// of returns the name by the path of a main package: the last element that is neither
// common nor a major version. A host, such as example.com, names no program. The package
// of a test has the ending ".test" or none.
func of(pkg string) (string, error) {
	path := strings.TrimSuffix(pkg, ".test")
	if path == "command-line-arguments" { // go run main.go
		path = ""
	}
	elements := strings.Split(path, "/")
	for i, name := range slices.Backward(elements) {
		host := i == 0 && strings.Contains(name, ".")
		if name != "" && !host && !slices.Contains(common, name) && !majorVersion.MatchString(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("the field manager has no name, because nothing in the path %q of the main package "+
		"names the program: set FieldManager of kube.Config, or run the package and not its files", pkg)
}
