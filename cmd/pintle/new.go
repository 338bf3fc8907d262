package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// next is the text that people read when their operator is written.
const next = `%s is an operator for the kind %s of %s/%s, which kubectl calls %s. Next:

  cd %s
%s  make test    # the first time, Kubernetes is built from source, for some minutes
  make dev     # run it on a local cluster, and restart it when a file is saved
`

// The commands that come first, if they are needed.
const (
	nextUse  = "  go work use .    # a workspace around the folder hides modules that it does not name\n"
	nextTidy = "  go mod tidy\n"
)

// create writes a new operator into a folder.
func (c command) create(ctx context.Context, args []string) error {
	n := names{}
	flags := flag.NewFlagSet("pintle new", flag.ContinueOnError)
	flags.SetOutput(c.messages)
	flags.StringVar(&n.kind, "kind", "", "`kind` of the operator's objects, such as Website")
	flags.StringVar(&n.group, "group", "", "API `group` of the kind, such as example.com")
	flags.StringVar(&n.version, "version", templateNames.version, "`version` of the API")
	flags.StringVar(&n.module, "module", "", "`path` of the Go module (default GROUP/NAME)")
	flags.StringVar(&n.pintle, "pintle", c.release, "`version` of pintle to require, by default that of this program")
	dir := flags.String("dir", "", "`folder` to write, which must not exist, or be empty except for .git (default NAME)")
	tidy := flags.Bool("tidy", true, "run go mod tidy in the new folder")
	flags.Usage = func() {
		fmt.Fprintln(c.messages, "usage: pintle new NAME --kind KIND --group GROUP [flags]")
		flags.PrintDefaults()
	}
	rest, err := parse(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	if err != nil {
		return &usageError{err}
	}
	switch len(rest) {
	case 0:
		return &usageError{errors.New("give the new operator a name: pintle new NAME --kind KIND --group GROUP")}
	case 1:
		n.name = rest[0]
	default:
		return &usageError{fmt.Errorf("one operator has one name, and not %q", rest)}
	}
	n.module = cmp.Or(n.module, n.defaultModule())
	if err := n.check(); err != nil {
		return &usageError{err}
	}
	folder := cmp.Or(*dir, n.name)
	written, err := write(folder, n)
	before := nextTidy
	if err == nil && *tidy {
		before = ""
		if err = c.tidy(ctx, folder); err != nil {
			err = fmt.Errorf("find the dependencies of %s, which is not made (--tidy=false writes it without them): %w",
				folder, err)
		}
	}
	if err != nil { // the next call finds the folder as this one has found it
		for _, path := range slices.Backward(written) {
			_ = os.Remove(path) // a folder that has other files stays
		}
		return err
	}
	if inWorkspace(ctx, folder) {
		before = nextUse + before
	}
	fmt.Fprintf(c.out, next, n.name, n.kind, n.group, n.version, n.plural()+"."+n.group, folder, before)
	return nil
}

// parse parses flags before, between and after other arguments, and returns the latter.
func parse(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		// Parse stops at the first argument that is no flag.
		rest = append(rest, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// write writes a new operator into a folder that does not exist, or is empty except for the
// directory of a repository. It returns what it has made, go.sum included, which go mod tidy adds.
func write(folder string, n names) (written []string, err error) {
	there, err := os.ReadDir(folder)
	// The hosts of repositories let people clone an empty one first.
	there = slices.DeleteFunc(there, func(e fs.DirEntry) bool { return e.Name() == ".git" })
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read the folder of the new operator: %w", err)
	case len(there) > 0:
		return nil, fmt.Errorf("write the new operator: %s is not empty: it has %s", folder, there[0].Name())
	}
	files, err := n.files()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(folder, filepath.FromSlash(name))
		made, err := makeDirs(filepath.Dir(path))
		if written = append(written, made...); err == nil {
			written = append(written, path)
			err = os.WriteFile(path, files[name], 0o644)
		}
		if err != nil {
			return written, fmt.Errorf("write the new operator: %w", err)
		}
	}
	return append(written, filepath.Join(folder, "go.sum")), nil
}

// makeDirs makes a directory with its parents, and returns those that it has made.
func makeDirs(path string) (made []string, err error) {
	err = os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrNotExist) {
		if made, err = makeDirs(filepath.Dir(path)); err == nil {
			err = os.Mkdir(path, 0o755)
		}
	}
	switch {
	case err == nil:
		made = append(made, path)
	case errors.Is(err, fs.ErrExist):
		err = nil
	}
	return made, err
}

// tidy completes go.mod and go.sum.
func (c command) tidy(ctx context.Context, folder string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "tidy")
	cmd.Dir = folder
	// A workspace around the folder has nothing to do with the new module.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stdout, cmd.Stderr = c.messages, c.messages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run go mod tidy in %s: %w", folder, err)
	}
	return nil
}

// inWorkspace reports whether the go command finds a workspace around a folder. A go
// command that fails is not an error here: it names the fault when people call it.
func inWorkspace(ctx context.Context, folder string) bool {
	cmd := exec.CommandContext(ctx, "go", "env", "GOWORK")
	cmd.Dir = folder
	out, err := cmd.Output()
	file := strings.TrimSpace(string(out))
	return err == nil && file != "" && file != "off"
}
