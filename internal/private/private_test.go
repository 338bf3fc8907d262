package private

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const stranger = 12345

// scene is a directory like /tmp, with its entries.
type scene struct {
	*testing.T
	dir string
}

func newScene(t *testing.T) scene {
	s := scene{t, filepath.Join(t.TempDir(), "tmp")}
	s.mkdir("", 0o777|fs.ModeSticky)
	return s
}

func (s scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s scene) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s scene) mkdir(name string, mode fs.FileMode) {
	s.Helper()
	s.check(os.Mkdir(s.path(name), 0o700))
	s.check(os.Chmod(s.path(name), mode))
}

func (s scene) symlink(target, name string) { s.Helper(); s.check(os.Symlink(target, s.path(name))) }

// give makes a stranger the owner of an entry, which only root can do.
func (s scene) give(name string) {
	s.Helper()
	if os.Geteuid() != 0 {
		s.Skip("only root can give files away")
	}
	s.check(os.Lchown(s.path(name), stranger, stranger))
}

func TestDir(t *testing.T) {
	for name, test := range map[string]struct {
		have func(s scene)
		path string
		want string // part of the error
	}{
		"it is made":               {nil, "a", ""},
		"it is made with parents":  {nil, "a/b/c", ""},
		"it is there":              {func(s scene) { s.mkdir("a", 0o700) }, "a", ""},
		"others can read it":       {func(s scene) { s.mkdir("a", 0o755) }, "a", ""},
		"others can write to it":   {func(s scene) { s.mkdir("a", 0o777) }, "a", "its mode 0777 lets others write to it"},
		"its group can":            {func(s scene) { s.mkdir("a", 0o770) }, "a", "its mode 0770 lets others write to it"},
		"it is sticky":             {func(s scene) { s.mkdir("a", 0o777|fs.ModeSticky) }, "a", "its mode 0777 lets others write to it"},
		"it is a link":             {func(s scene) { s.mkdir("b", 0o700); s.symlink("b", "a") }, "a", "it is a symbolic link"},
		"it is a file":             {func(s scene) { s.check(os.WriteFile(s.path("a"), nil, 0o600)) }, "a", "not a directory"},
		"it is a stranger's":       {func(s scene) { s.mkdir("a", 0o700); s.give("a") }, "a", "user 12345 owns it"},
		"and open":                 {func(s scene) { s.mkdir("a", 0o777); s.give("a") }, "a", "user 12345 owns it"},
		"its parent is":            {func(s scene) { s.mkdir("a", 0o755); s.give("a") }, "a/b", "user 12345 owns"},
		"its parent is, both made": {func(s scene) { s.mkdir("a", 0o755); s.mkdir("a/b", 0o700); s.give("a") }, "a/b", "user 12345 owns"},
		"a stranger's link leads to it": {
			func(s scene) { s.mkdir("b", 0o700); s.symlink("b", "a"); s.give("a") }, "a/c", "user 12345 owns",
		},
		"a link of our own does": {func(s scene) { s.mkdir("b", 0o700); s.symlink("b", "a") }, "a/c", ""},
		"a link up and down":     {func(s scene) { s.mkdir("b", 0o700); s.symlink("b/../b/.", "a") }, "a/c", ""},
		"others can replace it":  {func(s scene) { s.mkdir("b", 0o777) }, "b/c", "no sticky bit"},
		"others can, above":      {func(s scene) { s.mkdir("b", 0o777); s.mkdir("b/c", 0o700) }, "b/c/d", "no sticky bit"},
		"a link through such": {
			func(s scene) { s.mkdir("b", 0o777); s.mkdir("b/c", 0o700); s.symlink("b/c", "a") }, "a/d", "no sticky bit",
		},
		"a circle": {func(s scene) { s.symlink("b", "a"); s.symlink("a", "b") }, "a/c", "too many symbolic links"},
		"a dangling link": {
			func(s scene) { s.symlink("nowhere", "a"); s.give("a") }, "a/c", "user 12345 owns",
		},
		"root has put a stranger's directory here": {
			func(s scene) { s.mkdir("b", 0o755); s.mkdir("b/c", 0o755); s.give("b/c") }, "b/c/d", "user 12345 owns",
		},
		"a stranger's directory is above its parent": {
			func(s scene) { s.mkdir("b", 0o755); s.mkdir("b/c", 0o755); s.mkdir("b/c/d", 0o755); s.give("b/c") },
			"b/c/d/e", "user 12345 owns",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if test.have != nil {
				test.have(s)
			}
			err := Dir(s.path(test.path), "set PLACE")
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("%v, want %q", err, test.want)
				}
				if test.want != "not a directory" && !strings.HasSuffix(err.Error(), ", or set PLACE") {
					t.Errorf("%v names another remedy than the caller's", err)
				}
				if !errors.Is(err, ErrShared) && test.want != "not a directory" {
					t.Errorf("%v is not ErrShared", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(s.path(test.path))
			if err != nil || info.Mode() != fs.ModeDir|0o700 {
				t.Errorf("%v %v", info.Mode(), err)
			}
		})
	}
}

// If a parent belongs to a stranger, Dir makes nothing in it and returns an error.
func TestDirMakesNothingInAStrangersDirectory(t *testing.T) {
	s := newScene(t)
	s.mkdir("a", 0o777)
	s.give("a")
	if err := Dir(s.path("a/b/c"), "set PLACE"); err == nil {
		t.Fatal("it was accepted")
	}
	if _, err := os.Lstat(s.path("a/b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
}

// TestOwn has a HOME of another user, as containers of CI systems have: root's files go to root's own home.
func TestOwn(t *testing.T) {
	s := newScene(t)
	s.mkdir("mine", 0o700)
	s.mkdir("home", 0o755)
	s.mkdir("home/.cache", 0o755)
	if own, why := Own(s.path("mine/.cache"), ".cache"); own != s.path("mine/.cache") || why != "" {
		t.Errorf("%s, %q", own, why)
	}
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	s.check(err)
	s.give("home")
	for _, path := range []string{"home", "home/.cache", "home/another"} {
		if own, why := Own(s.path(path), ".cache"); own != filepath.Join(u.HomeDir, ".cache") || !strings.Contains(why, s.path(path)) {
			t.Errorf("%s: %s, %q", path, own, why)
		}
	}
}
