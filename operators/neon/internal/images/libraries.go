package images

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// copyTree copies a directory except files whose names match patterns. A directory that is not
// there is empty.
func copyTree(from, to string, without ...string) error {
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != from && matches(entry.Name(), without) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return copyEntry(path, filepath.Join(to, relative), entry)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

func copyEntry(from, to string, entry fs.DirEntry) error {
	switch kind := entry.Type(); {
	case kind.IsDir():
		return os.MkdirAll(to, 0o755)
	case kind&fs.ModeSymlink != 0:
		link, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(link, to)
	case !kind.IsRegular():
		return nil // sockets and devices are no part of an image
	}
	return copyFile(from, to)
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// complete adds a shell and the tools of the operator's scripts, if there are none, and the
// libraries that the programs in a directory need and that are not there.
func complete(root string) error {
	for _, dir := range []string{"bin", "lib", "lib64"} {
		// On most machines these are links into usr.
		link, err := os.Readlink("/" + dir)
		if err != nil {
			continue
		}
		if _, err := os.Lstat(filepath.Join(root, dir)); errors.Is(err, fs.ErrNotExist) {
			if err := errors.Join(os.Symlink(link, filepath.Join(root, dir)), os.MkdirAll(filepath.Join(root, link), 0o755)); err != nil {
				return err
			}
		}
	}
	for _, tool := range []string{"bin/sh", "bin/rm", "bin/mv"} {
		if _, err := os.Stat(filepath.Join(root, tool)); errors.Is(err, fs.ErrNotExist) {
			if err := copyFile("/"+tool, filepath.Join(root, tool)); err != nil {
				return err
			}
		}
	}
	there := map[string]bool{}
	var programs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		there[entry.Name()] = true
		if err == nil && entry.Type().IsRegular() {
			programs = append(programs, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("look for programs: %w", err)
	}
	for len(programs) > 0 {
		needed, interpreter, err := needs(programs[0])
		if err != nil {
			return err
		}
		programs = programs[1:]
		for _, library := range needed {
			if there[filepath.Base(library)] {
				continue
			}
			from, err := find(library)
			if err != nil {
				return err
			}
			there[filepath.Base(library)] = true
			// The loader of this machine looks for it where it is here.
			if err := copyFile(from, filepath.Join(root, from)); err != nil {
				return err
			}
			programs = append(programs, from)
		}
		if interpreter != "" && !there[filepath.Base(interpreter)] {
			there[filepath.Base(interpreter)] = true
			if err := copyFile(interpreter, filepath.Join(root, interpreter)); err != nil {
				return err
			}
		}
	}
	return nil
}

// needs returns the libraries that a program names, and the loader. A file that is no program
// needs none.
func needs(path string) (libraries []string, interpreter string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		var wrong *elf.FormatError
		if errors.As(err, &wrong) || errors.Is(err, io.EOF) {
			return nil, "", nil
		}
		return nil, "", fmt.Errorf("read program %s: %w", path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			text, err := io.ReadAll(p.Open())
			if err != nil {
				return nil, "", fmt.Errorf("read program %s: %w", path, err)
			}
			interpreter = strings.TrimRight(string(text), "\x00")
		}
	}
	libraries, err = f.ImportedLibraries()
	if err != nil {
		return nil, "", nil // it is not linked
	}
	return libraries, interpreter, nil
}

// find returns the path of a library on this machine.
func find(library string) (string, error) {
	for _, dir := range append(configured(), "/lib64", "/lib", "/usr/lib", "/usr/local/lib") {
		path := filepath.Join(dir, library)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("library %s is neither in the directory nor on this machine", library)
}

// configured returns the directories in which the loader of this machine looks.
func configured() (dirs []string) {
	files, err := filepath.Glob("/etc/ld.so.conf.d/*.conf")
	if err != nil {
		return nil
	}
	slices.Sort(files)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			if line := strings.TrimSpace(s.Text()); strings.HasPrefix(line, "/") {
				dirs = append(dirs, line)
			}
		}
		f.Close()
	}
	return dirs
}
