package local

import (
	"fmt"
	"io"
	"sync"
)

// Output keeps the lines of several programs apart.
type Output struct {
	// Name is the name of the command itself.
	Name string
	To   io.Writer

	mu sync.Mutex
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
	fmt.Fprintf(o.To, "%-7s | %s\n", name, text)
}
