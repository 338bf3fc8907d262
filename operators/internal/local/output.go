package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Output keeps the lines of several programs apart.
type Output struct {
	// Name is the name of the command itself.
	Name string
	To   io.Writer

	mu sync.Mutex
	// held has the lines that wait for the end of a drawing, nil if there is none.
	held *bytes.Buffer
}

// Say prints a message in the name of the command.
func (o *Output) Say(format string, args ...any) {
	o.line(o.Name, fmt.Sprintf(format, args...))
}

// Lines returns a function that prints lines of a program.
func (o *Output) Lines(name string) func(string) {
	return func(text string) { o.line(name, text) }
}

func (o *Output) line(name, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	to := o.To
	if o.held != nil {
		to = o.held
	}
	fmt.Fprintf(to, "%-7s | %s\n", name, text)
}

// Draw calls a function that draws in place. On a terminal all other lines wait until it
// returns. Elsewhere the lines of the drawing are lines of the command.
func (o *Output) Draw(draw func(io.Writer) error) error {
	if f, ok := o.To.(*os.File); !ok || !isTerminal(f) {
		w := &lineWriter{say: func(text string) { o.line(o.Name, text) }}
		return errors.Join(draw(w), w.end())
	}
	o.mu.Lock()
	o.held = new(bytes.Buffer)
	o.mu.Unlock()
	err := draw(o.To)
	o.mu.Lock()
	defer o.mu.Unlock()
	_, failed := o.held.WriteTo(o.To)
	o.held = nil
	return errors.Join(err, failed)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// lineWriter says each line that is written to it.
type lineWriter struct {
	say  func(string)
	left []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.left = append(w.left, p...)
	for {
		line, rest, found := bytes.Cut(w.left, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.say(string(line))
		w.left = rest
	}
}

func (w *lineWriter) end() error {
	if len(w.left) > 0 {
		w.say(string(w.left))
	}
	return nil
}
