// Package private makes directories that only this user can use. It refuses a directory
// that only seems to be so. Programs keep keys, sockets and executable files in such
// directories, also below the temporary directory. There everybody can make a directory
// if they can guess its name.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrShared is wrapped if another user owns a directory or could replace it.
var ErrShared = errors.New("other users have access to it")

// maxLinks is the largest number of symbolic links in a path.
const maxLinks = 40

// Dir makes a directory with mode 0700, and its parents, unless it exists. It returns an
// error that wraps [ErrShared] if another user could read the directory, write to it or
// put another directory in its place:
//
//   - the directory itself must not be a symbolic link, this user must own it, and nobody
//     else may have rights in it;
//   - every parent must belong to this user or to root, and one that others can write to
//     must have the sticky bit.
//
// If this user owns the directory and others can read it, but not write to it, Dir gives
// it the mode 0700.
//
// The error ends with the caller's remedy, which says how the user chooses another directory:
// often nobody may change the one that is refused, or its file system has no modes.
func Dir(path, remedy string) error {
	err := dir(path)
	if errors.Is(err, ErrShared) {
		err = fmt.Errorf("%w, or %s", err, remedy)
	}
	return err
}

// Own returns the path that the environment names for this user's files. If [Dir] would refuse a directory in it,
// because HOME is another user's as in containers of CI systems or with sudo, Own returns a path below the home
// directory that the password database has, and why. If that would be refused too, Own returns the first path.
func Own(path, below string) (own, why string) {
	refused := checkParents(filepath.Join(path, "file"))
	if !filepath.IsAbs(path) || !errors.Is(refused, ErrShared) {
		return path, ""
	}
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return path, ""
	}
	own = filepath.Join(u.HomeDir, below)
	if checkParents(filepath.Join(own, "file")) != nil {
		return path, ""
	}
	return own, fmt.Sprintf("using %s in place of %s, which other users could change (HOME is %s)", own, path, os.Getenv("HOME"))
}

func dir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find directory: %w", err)
	}
	// Dir checks the parents before it makes anything in them.
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
		return refuse(path, "it is not a directory", "remove it")
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

// checkParents checks all existing directories on the way to a path.
func checkParents(path string) error {
	done, links := "/", 0
	open := false // others can make entries in the directories checked so far
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
			return nil // this user makes it
		}
		if err != nil {
			return fmt.Errorf("check directory: %w", err)
		}
		if isStrangers(info, open) {
			return refuse(path, fmt.Sprintf("user %d owns %s, which leads to it", owner(info), next), "choose another directory")
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > maxLinks {
				return refuse(path, "the path has too many symbolic links", "choose another directory")
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

// checkParent checks one directory on the way to a path. It sets open if others can make
// entries in the directory.
func checkParent(path, dir string, open *bool) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check directory: %w", err)
	}
	*open = othersWrite(info)
	if *open && info.Mode()&fs.ModeSticky == 0 {
		why := fmt.Sprintf("others can write to %s, which has no sticky bit, and so replace it", dir)
		return refuse(path, why, "let its owner chmod it go-w or +t")
	}
	return nil
}

// isStrangers reports whether a user who is neither this one nor root owns an entry. In a user
// namespace, all users that it does not know look like one, and the system's root is among them: an
// entry of theirs counts only in a directory that is open to others.
func isStrangers(info fs.FileInfo, open bool) bool {
	const unknown = 65534
	uid := owner(info)
	if uid == os.Geteuid() || uid == 0 {
		return false
	}
	known, err := os.ReadFile("/proc/self/uid_map")
	all := err != nil || strings.Join(strings.Fields(string(known)), " ") == "0 0 4294967295"
	return open || uid != unknown || all
}

// othersWrite reports whether users besides the owner can write to a directory. A group
// with the owner's own number has the owner as its only member: systems that create files
// writable for the group make such groups.
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

// refuse returns an error with the reason and the remedy.
func refuse(path, why, remedy string) error {
	return fmt.Errorf("use directory %s: %w: %s; %s", path, ErrShared, why, remedy)
}
