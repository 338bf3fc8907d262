package kube

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// noManager is the error of a write whose field manager has no name.
type noManager struct{ pkg string }

func (e noManager) Error() string {
	return fmt.Sprintf("the field manager has no name, because nothing in the path %q of the main package "+
		"names the program: set FieldManager of kube.Config, or run the package and not its files", e.pkg)
}

// common are the elements that the paths of many main packages have.
var common = []string{"app", "bin", "cmd", "controller", "main", "manager", "operator"}

// majorVersion is the last element of the path of a module such as example.com/echo/v2.
var majorVersion = regexp.MustCompile(`^v([2-9]|[1-9][0-9]+)$`)

// managerOf returns the field manager of a program by the path of its main package: the
// last element that is neither common nor a major version. A host, such as example.com,
// names no program. The package of a test has the ending ".test" or none.
func managerOf(pkg string) (string, error) {
	path := strings.TrimSuffix(pkg, ".test")
	if path == "command-line-arguments" { // go run main.go
		return "", noManager{pkg}
	}
	elements := strings.Split(path, "/")
	for i, name := range slices.Backward(elements) {
		host := i == 0 && strings.Contains(name, ".")
		if name != "" && !host && !slices.Contains(common, name) && !majorVersion.MatchString(name) {
			return name, nil
		}
	}
	return "", noManager{pkg}
}

// ownManager returns the field manager of this program. It does not depend on the name of
// the file, which a debugger or an image may change: then the fields that the program owns
// would get a second owner.
func ownManager() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return managerOf("")
	}
	return managerOf(info.Path)
}

// managerName returns the name of the field manager, and the error of writes without one.
func (c Config) managerName() (string, error) {
	if c.FieldManager != "" {
		return c.FieldManager, nil
	}
	return ownManager()
}

// programName returns the field manager of this program or, if it has none, the name of
// its file.
func programName() string {
	name, _ := ownManager()
	if len(os.Args) == 0 {
		return cmp.Or(name, "pintle")
	}
	return cmp.Or(name, filepath.Base(os.Args[0]))
}

// checkManager returns an error if a request is a write whose field manager has no name.
func (h handle) checkManager(method string) error {
	writes := method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
	if !writes || h.write.FieldManager != "" {
		return nil
	}
	return h.client.noManager
}
