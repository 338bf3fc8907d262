package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
)

// recordSession records a session of a terminal as a picture: an animated SVG. The
// script has a line for each command:
//
//	$ COMMAND   is typed, and recorded until it ends
//	+ COMMAND   runs before the recording begins
//	- COMMAND   runs after the recording has ended
//
// All commands run in one bash, in the repository's root. In their output the home
// directory is ~. A command that fails ends the
// recording with an error; those after the recording run all the same.
func recordSession(ctx context.Context, repo *Repo, args []string) error {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	output := flags.String("o", "", "`file` to write")
	compare := flags.Bool("check", false, "record nothing; check that the picture has the script's commands")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *output == "" {
		return errors.New("record: name the script, and the picture with -o FILE")
	}
	source, err := os.ReadFile(filepath.Join(repo.Dir, flags.Arg(0)))
	if err != nil {
		return fmt.Errorf("read script: %w", err)
	}
	script, err := parseScript(string(source))
	if err != nil {
		return err
	}
	if *compare {
		picture, err := os.ReadFile(filepath.Join(repo.Dir, *output))
		if err != nil {
			return fmt.Errorf("read picture: %w", err)
		}
		return script.compare(picture)
	}
	lines, err := script.record(ctx, repo.Dir)
	if err != nil {
		return err
	}
	picture := drawSession(lines)
	if err := os.WriteFile(filepath.Join(repo.Dir, *output), picture, 0o644); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	fmt.Printf("record: %d lines, %d bytes in %s\n", len(lines), len(picture), *output)
	return nil
}

// script has the commands of a session.
type script struct{ before, typed, after []string }

func parseScript(text string) (s script, err error) {
	for line := range strings.Lines(text) {
		sign, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch sign {
		case "", "#":
		case "$":
			s.typed = append(s.typed, command)
		case "+":
			s.before = append(s.before, command)
		case "-":
			s.after = append(s.after, command)
		default:
			return s, fmt.Errorf("parse script: %q begins with none of $, +, - and #", line)
		}
	}
	if len(s.typed) == 0 {
		return s, errors.New("parse script: it types nothing")
	}
	return s, nil
}

// errOldPicture is the error of a picture that was made of another script.
var errOldPicture = errors.New("the picture is not of this script: run make recording")

// compare checks that a picture has the typed commands, in order.
func (s script) compare(picture []byte) error {
	typed := pictureTyped.FindAllSubmatch(picture, -1)
	var have []string
	for _, m := range typed {
		have = append(have, html.UnescapeString(string(m[1])))
	}
	var want []string
	for _, line := range typedLines(s.typed) {
		want = append(want, line.text)
	}
	if !slices.Equal(have, want) {
		return errOldPicture
	}
	fmt.Printf("record: the picture has the %d commands of the script\n", len(s.typed))
	return nil
}

// pictureTyped matches a typed line of a picture.
var pictureTyped = regexp.MustCompile(`<text [^>]*class="t"[^>]*>([^<]*)<`)

// typedLines returns the lines of commands on the screen.
func typedLines(commands []string) []screenLine {
	var s screen
	for _, command := range commands {
		s.command(command)
	}
	return s.lines
}

const (
	// columns is the width of the terminal.
	columns = 100
	// sessionLimit is the longest time of one command. The first one may build Kubernetes.
	sessionLimit = 30 * time.Minute
	// interruptPause is the time between two Ctrl-C.
	interruptPause = 3 * time.Second
	// promptMark begins the prompt of bash. The prompt has the status of the last command.
	promptMark = "\x1b]9;"
	promptEnd  = "\a"
)

// record runs the script, and returns the lines of the screen.
func (s script) record(ctx context.Context, dir string) (lines []screenLine, failed error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "bash", "--norc", "--noprofile", "--noediting", "-i")
	cmd.Dir = dir
	cmd.Env = append(userEnv(), "TERM=dumb", "PS1="+`\[`+promptMark+`$?`+promptEnd+`\]`, "HISTFILE=")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		return nil, fmt.Errorf("start a shell: %w", err)
	}
	t := &shell{file: terminal, pid: cmd.Process.Pid, output: make(chan []byte)}
	go t.read()
	defer func() {
		for _, command := range s.after {
			_, err := t.do(context.WithoutCancel(ctx), command)
			if errors.Is(err, errNoShell) {
				err = runAfter(context.WithoutCancel(ctx), dir, command)
			}
			if err != nil {
				failed = errors.Join(failed, err)
			}
		}
		_ = cmd.Process.Signal(syscall.SIGHUP) // the shell hands it on to its jobs
		t.close()
		_ = cmd.Wait() // the shell was hung up
		_ = terminal.Close()
	}()
	if _, err := t.prompt(ctx); err != nil {
		return nil, err
	}
	for _, command := range s.before {
		if _, err := t.do(ctx, command); err != nil {
			return nil, err
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("find home directory: %w", err)
	}
	var screen screen
	for _, command := range s.typed {
		screen.command(command)
		pieces, err := t.do(ctx, command)
		if err != nil {
			return nil, err
		}
		for _, p := range pieces {
			screen.write(p.after, bytes.ReplaceAll(p.text, []byte(home+"/"), []byte("~/")))
		}
	}
	return screen.lines, nil
}

// errNoShell is the error of a command whose shell has ended. Bash ends if Ctrl-C is typed just
// while it starts a program: the program has the terminal then, and bash cannot read.
var errNoShell = errors.New("the shell has ended")

// runAfter runs a command in a shell of its own, which has no jobs of the session.
func runAfter(ctx context.Context, dir, command string) error {
	fmt.Printf("$ %s\n", command)
	cmd := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-c", command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, userEnv(), os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w", command, err)
	}
	return nil
}

// shell is an interactive shell in a terminal.
type shell struct {
	file   *os.File
	pid    int
	output chan []byte
}

// piece is a piece of output, and the time since the command began.
type piece struct {
	after time.Duration
	text  []byte
}

// read reads the output until the terminal is closed.
func (t *shell) read() {
	defer close(t.output)
	for {
		buffer := make([]byte, 4096)
		n, err := t.file.Read(buffer)
		if n > 0 {
			t.output <- buffer[:n]
		}
		if err != nil {
			return
		}
	}
}

// close waits until no process has the terminal. It hangs up those that are left in the shell's
// session: bash forgets a program that it starts while Ctrl-C is typed. Then it kills them: a
// program may ignore the hang-up, and all programs below nohup do.
func (t *shell) close() {
	again := time.NewTicker(interruptPause)
	defer again.Stop()
	signal := syscall.SIGHUP
	for {
		select {
		case _, ok := <-t.output:
			if !ok {
				return
			}
		case <-again.C:
			for _, pid := range sessionOf(t.pid) {
				_ = syscall.Kill(pid, signal) // it may have ended
			}
			signal = syscall.SIGKILL
		}
	}
}

// sessionOf returns the processes of a session, on Linux.
func sessionOf(session int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, stat := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		fields := statOf(pid)
		if err == nil && len(fields) > 3 && fields[3] == strconv.Itoa(session) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// statOf returns the state, the parent, the process group, the session and more of a process, on
// Linux. Of one that does not exist it returns nothing.
func statOf(pid int) []string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // without the file, data is empty
	// The name of the program, in parentheses, may have spaces.
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
}

// ended reports whether the shell has ended. Nobody has waited for it, so its id is still its own.
func (t *shell) ended() bool {
	fields := statOf(t.pid)
	return len(fields) > 0 && fields[0] == "Z"
}

// do runs a command and returns its output, without the echo of the command.
func (t *shell) do(ctx context.Context, command string) ([]piece, error) {
	fmt.Printf("$ %s\n", command)
	if t.ended() {
		return nil, errNoShell
	}
	if _, err := t.file.WriteString(command + "\n"); err != nil {
		return nil, fmt.Errorf("type %s: %w", command, err)
	}
	pieces, err := t.prompt(ctx)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", command, err)
	}
	return withoutEcho(pieces), nil
}

// withoutEcho drops the first line, which is the command as the terminal echoes it.
func withoutEcho(pieces []piece) []piece {
	for i, p := range pieces {
		if _, rest, found := bytes.Cut(p.text, []byte("\n")); found {
			pieces[i].text = rest
			return pieces[i:]
		}
	}
	return nil
}

// interrupt types Ctrl-C.
func (t *shell) interrupt() error {
	if _, err := t.file.WriteString("\x03"); err != nil {
		return fmt.Errorf("type Ctrl-C: %w", err)
	}
	return nil
}

// prompt returns the output up to the next prompt. A status of the prompt that is not 0 is
// an error. When ctx ends, prompt types Ctrl-C until the prompt comes: one that is typed
// between two programs of a command reaches none of them. The shell stays, for the commands
// after the recording.
func (t *shell) prompt(ctx context.Context) ([]piece, error) {
	begun := time.Now()
	limit := time.NewTimer(sessionLimit)
	defer limit.Stop()
	var pieces []piece
	var all strings.Builder
	interrupt := ctx.Done()
	again := time.NewTicker(interruptPause)
	defer again.Stop()
	for {
		select {
		case <-interrupt:
			interrupt = nil
			again.Reset(interruptPause)
			if err := t.interrupt(); err != nil {
				return nil, err
			}
		case <-again.C:
			if t.ended() { // another program may have the terminal
				return nil, errNoShell
			}
			if ctx.Err() == nil {
				continue
			}
			if err := t.interrupt(); err != nil {
				return nil, err
			}
		case text, ok := <-t.output:
			if !ok {
				return nil, errNoShell
			}
			_, _ = os.Stdout.Write(text)
			all.Write(text)
			before, rest, found := strings.Cut(all.String(), promptMark)
			status, _, ended := strings.Cut(rest, promptEnd)
			if !found || !ended {
				pieces = append(pieces, piece{time.Since(begun), text})
				continue
			}
			seen := 0
			for _, p := range pieces {
				seen += len(p.text)
			}
			if seen <= len(before) {
				pieces = append(pieces, piece{time.Since(begun), []byte(before[seen:])})
			} else { // the mark came in two pieces
				last := &pieces[len(pieces)-1]
				last.text = last.text[:len(last.text)-(seen-len(before))]
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if status != "0" {
				return nil, fmt.Errorf("the command ended with status %s", status)
			}
			return pieces, nil
		case <-limit.C:
			return nil, fmt.Errorf("the command has not ended after %s", sessionLimit)
		}
	}
}
