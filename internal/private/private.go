// Package private makes directories that belong to this user alone, and refuses
// those that only look so. Programs keep keys, sockets and programs to run in
// them, also below the temporary directory, where everybody can make a directory
// whose name can be guessed.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrShared is wrapped when another user owns a directory or could replace it.
var ErrShared = errors.New("it is not this user's alone")

// maxLinks is how many symbolic links a path may lead through.
const maxLinks = 40

// Dir makes a directory with mode 0700, and its parents, unless it is there. It
// returns an error that wraps [ErrShared] if another user could read it, write to
// it or put another directory in its place:
//
//   - the directory itself must not be a symbolic link, this user must own it, and
//     nobody else may have rights in it;
//   - a parent that others can write to must have the sticky bit, and what leads
//     from there to the directory must belong to this user or to root.
//
// A directory of this user's that others can read, but not write to, is given the
// mode 0700.
func Dir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find directory: %w", err)
	}
	// A parent is looked at before anything is made in it.
	if err := checkParents(path); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := checkParents(path); err != nil {
		return err
	}
	return checkDir(path)
}

// checkDir checks the directory itself.
func checkDir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("check directory: %w", err)
	}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return refuse(path, "it is a symbolic link", "remove it")
	case !mode.IsDir():
		return refuse(path, "it is no directory", "remove it")
	case owner(info) != os.Geteuid():
		return refuse(path, fmt.Sprintf("user %d owns it", owner(info)), "have it removed")
	case mode.Perm()&0o022 != 0:
		why := fmt.Sprintf("its mode %#o lets others write to it", mode.Perm())
		return refuse(path, why, "remove it, because others may have put files there")
	case mode.Perm() != 0o700:
		if err := os.Chmod(path, 0o700); err != nil {
			return fmt.Errorf("close directory to others: %w", err)
		}
	}
	return nil
}

// checkParents checks all that leads to a path, as far as it exists.
func checkParents(path string) error {
	done, links := "/", 0
	open := false // others can make entries in done
	rest := strings.Split(strings.Trim(filepath.Dir(path), "/"), "/")
	if err := checkParent(path, done, &open); err != nil {
		return err
	}
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			if err := checkParent(path, done, &open); err != nil {
				return err
			}
			continue
		}
		next := filepath.Join(done, name)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is made by this user
		}
		if err != nil {
			return fmt.Errorf("check directory: %w", err)
		}
		if uid := owner(info); open && uid != os.Geteuid() && uid != 0 {
			return refuse(path, fmt.Sprintf("user %d owns %s, which leads to it", uid, next), "have it removed")
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > maxLinks {
				return refuse(path, "too many symbolic links lead to it", "choose another directory")
			}
			target, err := os.Readlink(next)
			if err != nil {
				return fmt.Errorf("check directory: %w", err)
			}
			if filepath.IsAbs(target) {
				done = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
			next = done
		}
		done = next
		if err := checkParent(path, done, &open); err != nil {
			return err
		}
	}
	return nil
}

// checkParent checks one directory that leads to a path, and notes whether others
// can make entries in it.
func checkParent(path, dir string, open *bool) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check directory: %w", err)
	}
	*open = othersWrite(info)
	if *open && info.Mode()&fs.ModeSticky == 0 {
		why := fmt.Sprintf("others can write to %s, which has no sticky bit, and so replace it", dir)
		return refuse(path, why, "chmod go-w or +t that directory")
	}
	return nil
}

// othersWrite reports that users besides the owner can write to a directory. A
// group of the owner's own number has the owner as its only member: that is how
// systems make them that create files writable for the group.
func othersWrite(info fs.FileInfo) bool {
	if info.Mode().Perm()&0o002 != 0 {
		return true
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode().Perm()&0o020 != 0 && (!ok || stat.Gid != stat.Uid)
}

func owner(info fs.FileInfo) int {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(stat.Uid)
}

// refuse returns an error that says what is wrong and what can be done.
func refuse(path, why, remedy string) error {
	const elsewhere = "or choose another place (TMPDIR, HOME, XDG_CACHE_HOME or PINTLE_HOME)"
	return fmt.Errorf("use directory %s: %w: %s; %s, %s", path, ErrShared, why, remedy, elsewhere)
}
