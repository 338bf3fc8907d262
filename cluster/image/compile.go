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

// compile builds a main package into dir and returns the path of the program.
func compile(ctx context.Context, o Options, dir string) (string, error) {
	// The go command knows a directory's packages only if it runs in their module.
	pkg, where := o.Package, o.Dir
	if filepath.IsAbs(pkg) {
		pkg, where = ".", pkg
	} else if pkg == "." || strings.HasPrefix(pkg, "./") || strings.HasPrefix(pkg, "../") {
		pkg, where = ".", filepath.Join(o.Dir, pkg)
	}
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	env := append(os.Environ(),
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH="+o.GOARCH,
		"GOFLAGS=-trimpath", // the caller's flags concern the caller only; empty would mean the user's defaults
	)
	if strings.Contains(o.Package, "@") {
		// Only go install accepts versions, and it installs programs for other systems
		// into GOPATH only.
		if runtime.GOOS != "linux" || o.GOARCH != runtime.GOARCH {
			return "", fmt.Errorf("%s: a package at a version can only be built on linux/%s", o.Package, o.GOARCH)
		}
		args = []string{"install"}
		env = append(env, "GOBIN="+dir)
	}
	// Without a build id and local paths the bytes depend on the sources and the Go
	// version alone.
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
		return "", fmt.Errorf("%s is not a single main package: the go command built %d programs", o.Package, len(made))
	}
	return filepath.Join(dir, made[0].Name()), nil
}

// checkStatic refuses a program that needs other files to run: the image has none.
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
			return errors.New("the program is linked dynamically, and the image has no libraries")
		}
	}
	return nil
}
