package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRecord(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Fatal(err)
	}
	s, err := parseScript("# a comment\n+ word=two\n$ echo one $word\n$ printf 'a\\nb\\n'\n\n- touch ended\n")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lines, err := s.record(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, l := range lines {
		got = append(got, l.text)
		if i > 0 && l.at < lines[i-1].at {
			t.Errorf("line %d appears before line %d", i, i-1)
		}
	}
	if want := []string{"$ echo one $word", "one two", "$ printf 'a\\nb\\n'", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if out, err := exec.Command("ls", dir).Output(); err != nil || string(out) != "ended\n" {
		t.Errorf("the last command has not run: %s, %v", out, err)
	}
}

func TestRecordFails(t *testing.T) {
	s, err := parseScript("$ false\n$ echo more\n- true\n")
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := s.record(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "status 1") {
		t.Errorf("got %v, %v", lines, err)
	}
}

// TestRecordIsInterrupted ends a recording by its context: the last commands run. The first Ctrl-C may
// have no effect.
func TestRecordIsInterrupted(t *testing.T) {
	for name, command := range map[string]string{
		"at the first": "touch begun; sleep 600",
		"not a job":    "(sleep 600 &); touch begun; sleep 600",
		// So do all programs below nohup.
		"ignores the hang-up": `(trap "" HUP; sleep 600 &); touch begun; sleep 600`,
		"at the second":       `sh -c 'trap "trap - INT" INT; touch begun; while true; do sleep 1; done'`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parseScript("$ " + command + "\n- touch ended\n")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var waiting sync.WaitGroup
			waiting.Go(func() {
				defer cancel()
				for ctx.Err() == nil {
					if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
						return
					}
					time.Sleep(10 * time.Millisecond) // kubetest is not a dependency of this module
				}
			})
			if lines, err := s.record(ctx, dir); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, %v", lines, err)
			}
			cancel()
			waiting.Wait()
			if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRecordWithoutShell ends the shell while another program has the terminal. The last command
// runs all the same.
func TestRecordWithoutShell(t *testing.T) {
	s, err := parseScript("$ sleep 600 & exit\n- touch ended\n")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if lines, err := s.record(t.Context(), dir); !errors.Is(err, errNoShell) {
		t.Errorf("got %v, %v", lines, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
		t.Error(err)
	}
}

func TestParseScriptFails(t *testing.T) {
	for _, text := range []string{"", "+ a\n", "echo a\n"} {
		if s, err := parseScript(text); err == nil {
			t.Errorf("%q: got %v", text, s)
		}
	}
}

func TestScreen(t *testing.T) {
	var s screen
	s.command("run")
	s.write(time.Second/2, []byte("1%\r2%"))
	s.write(time.Second, []byte("\r\x1b[1m3%\x1b[0m\r\nnext\r\n"))
	s.write(time.Hour, []byte(strings.Repeat("x", columns+1)+"\n\n"))
	want := []screenLine{
		{0, "$ run", 3 * keyTime},
		{3*keyTime + time.Second, "3%", 0},
		{3*keyTime + time.Second, "next", 0},
		{3*keyTime + time.Second + longestWait, strings.Repeat("x", columns), 0},
		{3*keyTime + time.Second + longestWait, "x", 0},
		{3*keyTime + time.Second + longestWait, "", 0},
	}
	if !slices.Equal(s.lines, want) {
		t.Errorf("got %v, want %v", s.lines, want)
	}
}

func TestDrawSession(t *testing.T) {
	var s screen
	s.command("cat <file>")
	s.write(0, []byte(strings.Repeat("a & b\n", 2*rows)))
	picture := drawSession(s.lines)
	var text strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := token.(xml.CharData); ok {
			text.Write(data)
		}
	}
	for _, want := range []string{"$ cat <file>", "a & b"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the picture has no %q", want)
		}
	}
	same, other := script{typed: []string{"cat <file>"}}, script{typed: []string{"cat file"}}
	if err := same.compare(picture); err != nil {
		t.Error(err)
	}
	if err := other.compare(picture); !errors.Is(err, errOldPicture) {
		t.Errorf("another script: got %v", err)
	}
	if loads.Match(picture) {
		t.Error("the picture loads from another host")
	}
}
