// Package clap reads command lines as strictly as upstream's programs do, with Rust's library of this
// name.
package clap

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// Flags are those of a program. Those of one letter come with one dash, and all others with two.
type Flags struct {
	*flag.FlagSet
	// Repeats lets a flag come more than once. The last one counts.
	Repeats bool
}

// New returns no flags.
func New(name string) Flags {
	return Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
}

// UsageError is a command line that the real program refuses.
type UsageError struct{ reason string }

// Errorf returns a UsageError.
func Errorf(format string, args ...any) *UsageError { return &UsageError{fmt.Sprintf(format, args...)} }

func (e *UsageError) Error() string { return e.reason }

// Ignored declares flags that take a value which makes no difference here.
func (f Flags) Ignored(names ...string) {
	for _, name := range names {
		f.String(name, "", "")
	}
}

// Switches declares flags without a value that make no difference here.
func (f Flags) Switches(names ...string) {
	for _, name := range names {
		f.Bool(name, false, "")
	}
}

// Parse reads a command line. The error is a [UsageError]. For --help, it prints the flags, and
// the error is [flag.ErrHelp].
func (f Flags) Parse(args []string) error {
	seen := map[flag.Value]bool{} // the two names of a flag have one
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--help" {
			f.help(os.Stdout)
			return flag.ErrHelp
		}
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		is := f.Lookup(name)
		dashes := "-"
		if len(name) > 1 {
			dashes = "--"
		}
		if is == nil || !strings.HasPrefix(arg, dashes+name) {
			return Errorf("unexpected argument '%s' found", arg)
		}
		if seen[is.Value] && !f.Repeats {
			return Errorf("the argument '%s%s' cannot be used multiple times", dashes, name)
		}
		seen[is.Value] = true
		if without, ok := is.Value.(interface{ IsBoolFlag() bool }); ok && without.IsBoolFlag() {
			if given {
				return Errorf("unexpected value '%s' for '--%s' found; no more were expected", value, name)
			}
			value, given = "true", true
		}
		if !given {
			if len(args) == 0 || strings.HasPrefix(args[0], "-") {
				return Errorf("a value is required for '%s%s' but none was supplied", dashes, name)
			}
			value, args = args[0], args[1:]
		}
		if err := is.Value.Set(value); err != nil {
			return Errorf("invalid value '%s' for '%s%s': %v", value, dashes, name, err)
		}
	}
	return nil
}

// help prints the flags, one a line.
func (f Flags) help(to io.Writer) {
	fmt.Fprintf(to, "Usage: %s [OPTIONS]\n\nOptions:\n", f.Name())
	f.VisitAll(func(one *flag.Flag) {
		dashes := "-"
		if len(one.Name) > 1 {
			dashes = "--"
		}
		fmt.Fprintf(to, "  %s%s\n", dashes, one.Name)
	})
}
