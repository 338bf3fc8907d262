package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/pintle-go/pintle/cluster/image"
)

const module = "github.com/pintle-go/pintle/cluster"

// buildImage builds an image of a main package of this directory: from the
// checkout that this program was built from, or of the version that it is.
func buildImage(ctx context.Context, name, output string) (string, error) {
	o := image.Options{Package: module + "/internal/realnode/" + name, Name: "pintle.local/" + name, Output: output}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("build image: this program was built without module information")
	}
	// Only what came through the module proxy has a checksum; a version is
	// stamped on builds of a checkout too.
	if info.Main.Path == module && info.Main.Sum != "" {
		o.Package += "@" + info.Main.Version
		o.Env = []string{"GOWORK=off"}
	} else {
		_, file, _, _ := runtime.Caller(0)
		o.Dir = filepath.Dir(file)
		o.Env = []string{"GOWORK="} // the checkout's own
		if _, err := os.Stat(o.Dir); err != nil {
			return "", fmt.Errorf("build image: the sources this program was built from are not there any more (build it again, without -trimpath): %w", err)
		}
	}
	result, err := image.Build(ctx, o)
	return result.Name, err
}

func tempDir() (string, func(), error) {
	dir, err := os.MkdirTemp("", "pintle-")
	return dir, func() { os.RemoveAll(dir) }, err
}
