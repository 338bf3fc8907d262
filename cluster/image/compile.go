package image

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// compile builds a main package into dir and returns the program's file.
func compile(ctx context.Context, o Options, dir string) (string, error) {
	// The go command knows a directory's packages only when it runs in their
	// module.
	pkg, where := o.Package, o.Dir
	if filepath.IsAbs(pkg) {
		pkg, where = ".", pkg
	} else if pkg == "." || strings.HasPrefix(pkg, "./") || strings.HasPrefix(pkg, "../") {
		pkg, where = ".", filepath.Join(o.Dir, pkg)
	}
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	env := append(os.Environ(),
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH="+o.GOARCH,
		"GOFLAGS=-trimpath", // the caller's flags are about the caller; empty would mean its defaults
	)
	if strings.Contains(o.Package, "@") {
		// Only install takes versions, and it refuses to put programs for
		// other systems anywhere but into GOPATH.
		if runtime.GOOS != "linux" || o.GOARCH != runtime.GOARCH {
			return "", fmt.Errorf("%s: a package at a version can only be built on linux/%s", o.Package, o.GOARCH)
		}
		args = []string{"install"}
		env = append(env, "GOBIN="+dir)
	}
	// Without a build id and paths of this machine the bytes depend on the
	// sources and the Go version alone.
	flags := strings.TrimSpace("-s -w -buildid= " + o.LDFlags)
	args = append(args, "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-tags="+strings.Join(o.Tags, ","), pkg)

	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = where, append(env, o.Env...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run go %s %s: %w\n%s", args[0], o.Package, err, bytes.TrimSpace(said.Bytes()))
	}

	made, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(made) != 1 {
		return "", fmt.Errorf("%s is not one main package: the go command made %d programs of it", o.Package, len(made))
	}
	return filepath.Join(dir, made[0].Name()), nil
}

// checkStatic refuses what cannot run in an image that holds nothing else.
func checkStatic(binary string) error {
	file, err := os.Open(binary)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("the program is linked dynamically, and there are no libraries in the image")
		}
	}
	return nil
}
